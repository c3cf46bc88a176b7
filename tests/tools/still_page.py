"""A page over a picture that changes only when a test says so. No API server looks at the names here."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Hashable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

from reconciler.allocation.alignment.deciding import decide
from reconciler.api.objects.changes import Changed
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.gangs import GangKey
from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.api.objects.plan import Granted, Plan
from reconciler.control.relocation.moves import MovesAdvice
from reconciler.control.units import Unit
from reconciler.operations.metrics.devices import Capacity
from reconciler.operations.page.panels import Recent
from reconciler.operations.page.routes import page_routes
from reconciler.operations.page.sources import Fact, GangEntry, PendingUnit, PlacementView, Sources
from reconciler.operations.serving.access import local_only
from reconciler.operations.serving.port import StatusPort
from reconciler.operations.serving.server import serving
from reconciler.plugins.koordinator.fleet import Fleet
from reconciler.plugins.koordinator.page import MachinesView
from reconciler.plugins.koordinator.pods import KoordinatorState
from reconciler.settings import Settings
from reconciler.state.devices.snapshot import Snapshot
from reconciler.state.store import Store
from tests.tools.builders import Object, store, typed
from tests.tools.watched_reconciler import utc_now

NOON = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


@dataclass
class Still:
    """Where the page is, and what it shows."""

    store: Store
    url: str = ""
    facts: list[Fact] = field(default_factory=lambda: [Fact("Mode", "allocating")])
    waiting: list[PendingUnit] = field(default_factory=list)
    now: datetime = NOON
    created: dict[tuple[str, ObjectKey], str] = field(default_factory=dict)
    plans: dict[ObjectKey, Plan] = field(default_factory=dict)
    fleet: Fleet | None = None
    placement: PlacementView | None = None
    moves: tuple[MovesAdvice, ...] = ()
    gangs: dict[GangKey, GangEntry] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.recent = Recent(lambda: self.now)

    def allocate(self, *raws: Object) -> list[tuple[DeviceID, ...]]:
        """Give each of these claims what it asks for; the devices of each."""
        given = []
        for raw in raws:
            claim = typed(raw)
            assert isinstance(claim, ResourceClaim)
            self.store.apply(Changed("ResourceClaim", claim))
            answer = decide([claim], self.store.snapshot(), nodes=None, steps=10_000)
            assert isinstance(answer, Granted), answer
            for plan in answer.plans:
                self.store.assume(plan)
                self.plans[plan.claim] = plan
            given.append(tuple(self.devices_of(claim.key)))
        return given

    def devices_of(self, claim: ObjectKey) -> list[DeviceID]:
        plan = self.plans.get(claim)
        results = plan.allocation.devices.results if plan is not None else ()
        return [DeviceID(one.driver, one.pool, one.device) for one in results]


class StillSources(Sources):
    """The data of the page from a picture instead of a reconciler."""

    def __init__(self, still: Still) -> None:
        self.still = still
        self.capacity = Capacity(still.store.snapshot)
        self.clock, self.now = time.monotonic, lambda: still.now
        fleet = still.fleet
        self.plugins = [MachinesView(KoordinatorState(fleet, lambda _: None))] if fleet else []
        self.recent = still.recent
        self.placement, self.moves = lambda: still.placement, lambda: still.moves

    def ready(self) -> bool:
        return True

    def snapshot(self) -> Snapshot:
        return self.still.store.snapshot()

    def facts(self) -> list[Fact]:
        return self.still.facts

    def claims(self) -> Iterable[ObjectKey]:
        return self.still.store.claims

    def devices_of(self, claim: ObjectKey) -> list[DeviceID]:
        return self.still.devices_of(claim)

    def pending(self) -> Iterator[PendingUnit]:
        return iter(self.still.waiting)

    def created(self, kind: str, key: ObjectKey) -> str:
        return self.still.created.get((kind, key), "")

    def by_reason(self) -> dict[str, int]:
        return Counter(one.reason for one in self.still.waiting)

    def pending_version(self) -> Hashable:
        return len(self.still.waiting), self.still.fleet.changes if self.still.fleet else 0

    def explain(self, _unit: Unit) -> None:
        return None

    def gangs(self) -> tuple[list[GangKey], list[GangKey]]:
        return list(self.still.gangs), []

    def gang(self, gang: GangKey) -> GangEntry | None:
        return self.still.gangs.get(gang)

    def gangs_version(self) -> Hashable:
        return len(self.still.gangs)


@asynccontextmanager
async def standing(objects: Iterable[Object], fleet: Fleet | None = None) -> AsyncIterator[Still]:
    """Serve the page of these objects while the block runs."""
    still, stop = Still(store(*objects), fleet=fleet), asyncio.Event()
    port = StatusPort(local_only)
    port.add(*page_routes(StillSources(still), stop))
    async with serving(port, Settings(), now=utc_now) as still.url:
        try:
            yield still
        finally:
            stop.set()
