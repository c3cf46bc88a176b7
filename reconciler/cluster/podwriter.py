"""Reads and patches single pods. Each patch applies to one version of the pod."""

from collections.abc import Sequence

from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.versions.reading import read
from reconciler.cluster.client import JSON, Client, Raw
from reconciler.cluster.kinds import Served
from reconciler.errors import Gone, Inconsistent, Malformed, Undecided


class PodWriter:
    """Reads and patches pods. Raises the errors of `Client`.

    A request that was cancelled may have been applied, as with Undecided: a read settles it.
    """

    def __init__(self, client: Client, served: Served) -> None:
        self._client = client
        self._pods = served["Pod"]

    async def read(self, key: ObjectKey) -> Pod | None:
        """The pod as the server has it now, or None if there is none. Raises Malformed."""
        try:
            return _pod(await self._client.get(self._pods, key))
        except Gone:
            return None

    async def patch(self, pod: Pod, steps: Sequence[Raw]) -> Pod:
        """Apply the steps of a JSON patch to a pod, all or none. Returns it as stored.

        Raises Conflict when the server has another version of the pod than was given.
        """
        version = pod.metadata.resource_version
        if not version:  # the write would be unconditional
            raise Inconsistent(f"{pod.key} has no resourceVersion to write from")
        guard: Raw = {"op": "replace", "path": "/metadata/resourceVersion", "value": version}
        raw = await self._client.patch(self._pods, pod.key, [guard, *steps], content_type=JSON)
        try:
            return _pod(raw)
        except Malformed as exc:
            # It was applied, even if the response cannot be read.
            raise Undecided(f"the answer to a write cannot be read: {exc}") from exc


def _pod(raw: Raw) -> Pod:
    found = read(raw)
    if not isinstance(found, Pod):
        raise Inconsistent(f"{found.key} was read as {type(found).__name__}, not Pod")
    return found
