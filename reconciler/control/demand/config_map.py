"""Keeps the learnt demand in a ConfigMap, so that a restart does not forget it."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

import structlog

from reconciler.allocation.policies.demand import NO_DEMAND, Demand, read_demand
from reconciler.api.objects.meta import ObjectKey
from reconciler.cluster.client import Client
from reconciler.control.kept_config_map import KeptConfigMap
from reconciler.errors import Malformed, Retry

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
        self._kept = KeptConfigMap(client, key, on_problem=self._tell)
        self._writes = writes

    async def read(self) -> Kept:
        """What it holds; nothing if it cannot be read."""
        try:
            data = await self._kept.read()
        except Retry:
            return Kept()
        if data is None or DEMAND not in data:
            return Kept()
        try:
            kept, refused = read_kept(data, f"ConfigMap {self._kept.key}")
        except Malformed as exc:
            log.warning("learnt demand refused", config_map=str(self._kept.key), error=str(exc))
            return Kept()
        for problem in refused:
            log.warning("shape of the demand refused", error=str(problem))
        return kept

    async def write(self, demand: Demand, at: datetime, comparison: str = "") -> bool:
        """Replace what it holds. Returns whether it did; False also where somebody else has changed it.

        `comparison` is what people may read there; it is not read back.
        """
        if not self._writes():
            return False
        data = {DEMAND: demand.to_json(), AT: at.astimezone(UTC).isoformat(timespec="seconds")}
        return await self._kept.write(data | ({COMPARED: comparison} if comparison else {}))

    def _tell(self, error: str, remedy: str) -> None:
        log.warning("learnt demand not kept", config_map=str(self._kept.key), error=error, remedy=remedy)
