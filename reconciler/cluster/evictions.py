"""Evicts pods by the Eviction API, so that PodDisruptionBudgets hold. Source: MAKE-9.

Nothing is retried here, and no pod is ever deleted otherwise.
"""

from typing import Any

from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.versions.reading import read
from reconciler.cluster.client import Client
from reconciler.cluster.kinds import POD
from reconciler.errors import Inconsistent


class Evictions:
    """Requests evictions, and writes the hint where a pod is expected."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def evict(self, pod: ObjectKey, uid: str, *, dry_run: bool = False) -> None:
        """Ask the server to evict one pod, and no later pod of its name.

        Raises Protected where a budget does not allow it now, Conflict if the name belongs to another pod,
        Gone if there is none, and the other errors of `Client`.
        """
        options: dict[str, Any] = {"preconditions": {"uid": uid}}
        if dry_run:
            options["dryRun"] = ["All"]
        await self._client.evict(
            POD,
            pod,
            {
                "apiVersion": "policy/v1",
                "kind": "Eviction",
                "metadata": {"name": pod.name, "namespace": pod.namespace},
                "deleteOptions": options,
            },
        )

    async def nominate(self, pod: Pod, node: str) -> Pod:
        """Write `status.nominatedNodeName`, or remove it if `node` is empty. Returns the pod as stored."""
        patch = {
            "metadata": {"resourceVersion": pod.metadata.resource_version},
            "status": {"nominatedNodeName": node or None},
        }
        found = read(await self._client.patch(POD, pod.key, patch, subresource="status"))
        if not isinstance(found, Pod):
            raise Inconsistent(f"{found.key} was read as {type(found).__name__}, not Pod")
        return found
