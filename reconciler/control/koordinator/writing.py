"""Writes granted devices with one patch, and handles its outcome.

One request sets the annotation and the node and removes the gate. It names the resourceVersion that was
decided from, so it applies as a whole or not at all.
"""

from reconciler.api.koordinator.names import ALLOCATED
from reconciler.api.koordinator.patch import steps
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.cluster.pod_writer import PodWriter
from reconciler.control.koordinator.intake import DeviceIntake
from reconciler.control.koordinator.state import Grant
from reconciler.errors import Conflict, Gone, Rejected, Retry, Undecided


class GrantWriter:
    """Writes grants. A grant is assumed until the answer of the server to its write is known."""

    def __init__(self, devices: DeviceIntake, writer: PodWriter) -> None:
        self._devices = devices
        self._writer = writer

    async def write(self, grant: Grant) -> None:
        """Write an assumed grant.

        Conflict, Retry, Rejected, Gone: the devices are free again. Undecided or cancelled, or if
        the pod cannot be read after a refusal: the grant stays assumed.
        """
        try:
            await self._send(grant)
        except Undecided:
            raise
        except (Conflict, Rejected) as exc:
            found = await self._read(grant.pod.key)
            self._devices.forget(grant)
            if isinstance(exc, Rejected) and found is not None and _version(found) != _version(grant.pod):
                # The pod has changed, so the steps of the patch did not apply: that is a conflict as well.
                raise Conflict(str(exc)) from exc
            raise
        except (Retry, Gone):
            self._devices.forget(grant)
            raise

    async def resolve(self, grant: Grant) -> bool:
        """Find out whether a write without an answer was applied. Returns whether the pod has the grant.

        A write in flight applies only to the version it was decided from. If the pod still has that
        version, the same is written again, so that it does not matter which of the two arrives. On any
        error the grant stays assumed: the first write may be applied by then.
        """
        found = await self._read(grant.pod.key)
        if found is None or found.metadata.uid != grant.pod.metadata.uid:
            self._devices.forget(grant)
            return False
        if _version(found) != _version(grant.pod):
            self._devices.forget(grant)  # if it was written, `_read` has counted it already
            return found.metadata.annotations.get(ALLOCATED) == grant.text
        await self._send(grant)
        return True

    async def _send(self, grant: Grant) -> None:
        self._devices.observe(
            await self._writer.patch(grant.pod, steps(grant.pod, grant.held.node, grant.text))
        )
        # If it is still assumed, the server stored the pod without the annotation.
        self._devices.forget(grant)

    async def _read(self, key: ObjectKey) -> Pod | None:
        pod = await self._writer.read(key)
        if pod is not None:
            self._devices.observe(pod)
        return pod


def _version(pod: Pod) -> str:
    return pod.metadata.resource_version
