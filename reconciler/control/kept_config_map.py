"""Data that outlast the process in an existing ConfigMap. There is no need for a right to create one."""

from collections.abc import Callable, Mapping

from reconciler.api.objects.core import ConfigMap
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.validating import validated
from reconciler.cluster.client import Client
from reconciler.cluster.kinds import config_map
from reconciler.errors import Gone, ReconcilerError, Rejected, Retry


class KeptConfigMap:
    """Reads and writes one ConfigMap. Only the reader decides whether to wait for a server that is away."""

    def __init__(self, client: Client, key: ObjectKey, *, on_problem: Callable[[str, str], None]) -> None:
        """`on_problem` gets each problem that does not pass by itself once, with its remedy."""
        self._client, self.key, self._resource = client, key, config_map(key)
        self._on_problem = on_problem
        self._version = ""
        self._problem = ""

    async def read(self) -> Mapping[str, str] | None:
        """Its data; None if it does not exist, or must not be read. Raises Retry as `Client` does."""
        try:
            found = validated(ConfigMap, await self._client.get(self._resource, self.key))
        except Retry:
            raise
        except ReconcilerError as exc:
            self._tell(exc)
            return None
        self._version = found.metadata.resource_version
        return found.data

    async def write(self, data: Mapping[str, str]) -> bool:
        """Set these keys. Returns whether it did; False also where somebody else has changed it."""
        try:
            if not self._version and await self.read() is None:
                return False
            patch = {"metadata": {"resourceVersion": self._version}, "data": dict(data)}
            raw = await self._client.patch(self._resource, self.key, patch)
            self._version = validated(ConfigMap, raw).metadata.resource_version
        except ReconcilerError as exc:
            self._version = ""
            self._tell(exc)
            return False
        self._problem = ""
        return True

    def _tell(self, exc: ReconcilerError) -> None:
        if not isinstance(exc, Gone | Rejected) or str(exc) == self._problem:
            return
        self._problem = str(exc)
        remedy = "create it, empty" if isinstance(exc, Gone) else "allow get and patch on it"
        self._on_problem(self._problem, remedy)
