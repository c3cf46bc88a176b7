"""Keeps the learnt demand in a ConfigMap, so that a restart does not forget it."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

import structlog

from reconciler.allocation.policies.demand import NO_DEMAND, Demand, read_demand
from reconciler.api.objects.core import ConfigMap
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.validating import validated
from reconciler.cluster.client import Client
from reconciler.cluster.kinds import config_map
from reconciler.errors import Conflict, Gone, Malformed, ReconcilerError, Rejected

log = structlog.get_logger()

DEMAND, AT, COMPARED = "demand", "at", "comparison"
"""The keys in its data: the shapes as JSON, when they were counted, and what policies would have done"""


class Kept(NamedTuple):
    """What the ConfigMap holds."""

    demand: Demand = NO_DEMAND
    at: datetime | None = None
    """When it was counted. Claims that were created before are in it"""


def read_kept(data: Mapping[str, str], source: str) -> tuple[Kept, tuple[Malformed, ...]]:
    """What the data of the ConfigMap `source` say, and the shapes that are left out. Raises Malformed."""
    try:
        at = datetime.fromisoformat(data.get(AT, ""))
    except ValueError as exc:
        raise Malformed(source, AT, "must be a time in RFC 3339 format") from exc
    found = read_demand(data.get(DEMAND, ""), f"{source} {DEMAND}")
    return Kept(found.demand, at if at.tzinfo is not None else at.replace(tzinfo=UTC)), found.refused


class DemandConfigMap:
    """Reads and writes one existing ConfigMap. Problems are logged, once each; they stop nothing."""

    def __init__(self, client: Client, key: ObjectKey, *, writes: Callable[[], bool]) -> None:
        """`writes` says whether this process may write now: only the leader may."""
        self._client, self._key, self._resource = client, key, config_map(key)
        self._writes = writes
        self._version = ""
        self._problem = ""

    async def read(self) -> Kept:
        """What it holds; nothing if it cannot be read."""
        try:
            found = validated(ConfigMap, await self._client.get(self._resource, self._key))
        except ReconcilerError as exc:
            self._tell(exc)
            return Kept()
        self._version = found.metadata.resource_version
        if DEMAND not in found.data:
            return Kept()
        try:
            return self._kept(found.data)
        except Malformed as exc:
            log.warning("learnt demand refused", config_map=str(self._key), error=str(exc))
            return Kept()

    async def write(self, demand: Demand, at: datetime, comparison: str = "") -> bool:
        """Replace what it holds. Returns whether it did; False also where somebody else has changed it.

        `comparison` is what people may read there; it is not read back.
        """
        if not self._writes():
            return False
        if not self._version:
            await self.read()
        if not self._version:
            return False
        data = {DEMAND: demand.to_json(), AT: at.astimezone(UTC).isoformat(timespec="seconds")}
        data |= {COMPARED: comparison} if comparison else {}
        patch = {"metadata": {"resourceVersion": self._version}, "data": data}
        try:
            raw = await self._client.patch(self._resource, self._key, patch)
            self._version = validated(ConfigMap, raw).metadata.resource_version
        except Conflict:
            self._version = ""
            return False
        except ReconcilerError as exc:
            self._version = ""
            self._tell(exc)
            return False
        self._problem = ""
        return True

    def _kept(self, data: Mapping[str, str]) -> Kept:
        kept, refused = read_kept(data, f"ConfigMap {self._key}")
        for problem in refused:
            log.warning("shape of the demand refused", error=str(problem))
        return kept

    def _tell(self, exc: ReconcilerError) -> None:
        """Log a problem once. Whatever passes by itself is not worth a line."""
        if not isinstance(exc, Gone | Rejected) or str(exc) == self._problem:
            return
        self._problem = str(exc)
        remedy = "create it, empty" if isinstance(exc, Gone) else "allow get and patch on it"
        log.warning("learnt demand not kept", config_map=str(self._key), error=str(exc), remedy=remedy)
