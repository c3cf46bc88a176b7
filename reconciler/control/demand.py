"""The demand that placement policies use: given in a file, or learnt from claims and kept in a ConfigMap."""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import structlog
from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.allocation.policies import demand as demands
from reconciler.allocation.policies.selection import PLAIN, Policies
from reconciler.api.manifests.documents import file_text
from reconciler.api.objects.changes import Notice, versions
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.meta import ObjectKey
from reconciler.cluster.client import Client
from reconciler.cluster.watch import Sink
from reconciler.control.held_room import KeptConfigMap
from reconciler.control.intake import Intake
from reconciler.errors import Malformed, Retry
from reconciler.state.nodes.room import CPU, demand


def read_demand_file(path: Path) -> demands.ReadDemand:
    """The demand in a file, and the shapes that are left out. Raises Malformed if nothing can be read."""
    text = file_text(path)
    if isinstance(text, Malformed):
        raise text
    return demands.read_demand(text, str(path))


log = structlog.get_logger()

DEMAND, AT, COMPARED = "demand", "at", "comparison"
"""The keys in its data: the shapes as JSON, when they were counted, and what policies would have done"""


class Kept(NamedTuple):
    """What the ConfigMap holds."""

    demand: demands.Demand = demands.NO_DEMAND
    at: datetime | None = None
    """When it was counted. Claims that were created before are in it"""


def read_kept(data: Mapping[str, str], source: str) -> tuple[Kept, tuple[Malformed, ...]]:
    """What the data of the ConfigMap `source` say, and the shapes that are left out. Raises Malformed."""
    try:
        at = datetime.fromisoformat(data.get(AT, ""))
    except ValueError as exc:
        raise Malformed(source, AT, "must be a time in RFC 3339 format") from exc
    found = demands.read_demand(data.get(DEMAND, ""), f"{source} {DEMAND}")
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

    async def write(self, demand: demands.Demand, at: datetime, comparison: str = "") -> bool:
        """Replace what it holds. Returns whether it did; False also where somebody else has changed it.

        `comparison` is what people may read there; it is not read back.
        """
        if not self._writes():
            return False
        data = {DEMAND: demand.to_json(), AT: at.astimezone(UTC).isoformat(timespec="seconds")}
        return await self._kept.write(data | ({COMPARED: comparison} if comparison else {}))

    def _tell(self, error: str, remedy: str) -> None:
        log.warning("learnt demand not kept", config_map=str(self._kept.key), error=error, remedy=remedy)


class PoliciesInUse:
    """Call it for the present policies. A question keeps those with which it was asked."""

    def __init__(
        self, policies: Policies = PLAIN, record: Callable[[Policies], None] = lambda _: None
    ) -> None:
        """`record` gets the policies now and whenever they change."""
        self._current, self._record = policies, record
        record(policies)

    def __call__(self) -> Policies:
        return self._current

    def learn(self, demand: demands.Demand) -> None:
        """Keep room for another demand from the next question on."""
        self._current = replace(self._current, demand=demand)
        self._record(self._current)


EVERY = 60.0
"""Seconds between two updates of the demand in use, and between two writes, at least"""
BACKLOG = 100_000
"""Claims that wait to be counted. Of more, the oldest are not counted"""
AT_ONCE = 200
"""Claims that are counted between two turns of the event loop"""


class Seen(NamedTuple):
    """A claim when it was first seen."""

    claim: ResourceClaim
    at: datetime


class DemandLearner(Struct, eq=False):
    """Takes the place of the sink of all watches, notes new claims, and passes every change on."""

    _intake: Intake
    _sink: Sink
    _policies: PoliciesInUse
    _keeper: DemandConfigMap | None
    """Outlasts restarts"""
    learnt: demands.LearntDemand
    now: Callable[[], datetime]
    """The time of day with its zone"""
    comparison: Callable[[], str] = lambda: ""
    """Kept for people beside the demand"""
    _seen: deque[Seen] = field(default_factory=lambda: deque(maxlen=BACKLOG))
    counted: int = 0
    """Claims that this process counted"""

    def take(self, change: Notice) -> None:
        """The sink of every watch: note claims that are new, then apply the change."""
        for _, claim in versions(change, ResourceClaim):
            if claim is not None:
                self._note(claim)
        self._sink(change)

    async def run(self) -> None:
        """Count and publish until cancelled."""
        await self._intake.listed.wait()
        before, unwritten, written = await self._restore(), False, ""
        while True:
            unwritten |= await self._count(before)
            self._publish()
            comparison = self.comparison()
            unwritten |= comparison != written
            if unwritten and self._keeper is not None:
                now, written = self.now(), comparison
                learnt = self.learnt.demand(now.timestamp())
                unwritten = not await self._keeper.write(learnt, now, comparison)
            await asyncio.sleep(EVERY)

    async def _restore(self) -> datetime:
        """Read what was kept. Returns when it was counted: older claims are in it."""
        if self._keeper is None:
            return datetime.min.replace(tzinfo=UTC)
        kept = await self._keeper.read()
        if kept.at is None:
            return datetime.min.replace(tzinfo=UTC)
        # A clock that runs ahead must not keep later claims from being counted.
        at = min(kept.at, self.now())
        self.learnt.load(kept.demand.shapes, at.timestamp())
        return at

    def _note(self, claim: ResourceClaim) -> None:
        known = self._intake.store.claims.get(claim.key)
        if known is None or known.metadata.uid != claim.metadata.uid:
            self._seen.append(Seen(claim, self.now()))

    async def _count(self, before: datetime) -> bool:
        """Count what was noted, but claims that were created before. Returns whether there were any."""
        counted = self.counted
        while self._seen:
            for _ in range(min(AT_ONCE, len(self._seen))):
                claim, at = self._seen.popleft()
                created = claim.metadata.created or at
                if created > before:
                    self.learnt.count(claim.spec, self._cores(claim), min(created, at).timestamp())
                    self.counted += 1
            await asyncio.sleep(0)
        return self.counted > counted

    def _cores(self, claim: ResourceClaim) -> int:
        """Thousandths of a CPU that the first pod of a claim needs; 0 without a pod."""
        for key in sorted(self._intake.roster.users(claim.key)):
            if (pod := self._intake.store.pods.get(key)) is not None:
                return demand(pod).get(CPU, 0)
        return 0

    def _publish(self) -> None:
        """Let decisions use the demand, if it is another one than theirs."""
        now = self.learnt.demand(self.now().timestamp()).without_slow(self._intake.store.snapshot())
        if now.shapes and demands.demand_differs(self._policies().demand, now):
            self._policies.learn(now)
            log.info("demand learnt", shapes=len(now.shapes), digest=now.digest, counted=self.counted)
