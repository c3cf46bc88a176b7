"""Decided devices on their way to the server: one patch, and what is known after it.

Annotation, node and gate go together in one request that names the version it was decided from. It
happens to that pod as a whole or not at all.
"""

from reconciler.api.koordinator.names import ALLOCATED
from reconciler.api.koordinator.patch import steps
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.cluster.podwriter import PodWriter
from reconciler.control.koordinator.intake import DeviceIntake
from reconciler.control.koordinator.state import Grant
from reconciler.errors import Conflict, Gone, Rejected, Retry, Undecided


class GrantWriter:
    """Writes grants. One is assumed from before its write until the server's answer is known."""

    def __init__(self, devices: DeviceIntake, writer: PodWriter) -> None:
        self._devices = devices
        self._writer = writer

    async def write(self, grant: Grant) -> None:
        """Write a grant that is assumed already.

        Conflict, Retry, Rejected, Gone: the devices are free again. Undecided or cancelled, also where
        the pod could not be read after a refusal: the grant stays assumed.
        """
        try:
            await self._send(grant)
        except Undecided:
            raise
        except (Conflict, Rejected) as exc:
            found = await self._look(grant.pod.key)
            self._devices.forget(grant)
            if isinstance(exc, Rejected) and found is not None and _version(found) != _version(grant.pod):
                # The steps did not fit what the pod has become: refused for another reason than its version.
                raise Conflict(str(exc)) from exc
            raise
        except (Retry, Gone):
            self._devices.forget(grant)
            raise

    async def resolve(self, grant: Grant) -> bool:
        """Find out what became of a write without an answer. Whether the pod has what was decided.

        A write that is still on its way can hit only the version it was decided from. While the pod
        has that version the same is written again, so that it does not matter which of the two arrives.
        Whatever is raised, the grant stays assumed: the first of the two may be through by then.
        """
        found = await self._look(grant.pod.key)
        if found is None or found.metadata.uid != grant.pod.metadata.uid:
            self._devices.forget(grant)
            return False
        if _version(found) != _version(grant.pod):
            self._devices.forget(grant)  # unless it was written, and is counted as what it is
            return found.metadata.annotations.get(ALLOCATED) == grant.text
        await self._send(grant)
        return True

    async def _send(self, grant: Grant) -> None:
        self._devices.observe(
            await self._writer.patch(grant.pod, steps(grant.pod, grant.held.node, grant.text))
        )
        # Still assumed: the server kept the pod without the annotation. Nobody would count it again.
        self._devices.forget(grant)

    async def _look(self, key: ObjectKey) -> Pod | None:
        pod = await self._writer.read(key)
        if pod is not None:
            self._devices.observe(pod)
        return pod


def _version(pod: Pod) -> str:
    return pod.metadata.resource_version
