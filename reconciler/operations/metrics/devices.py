"""Figures about the cluster, made at a scrape: devices and counters, what still fits, claims and slices."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import TypeVar
from weakref import ref

import numpy as np
from msgspec import Struct, field

from kernels.types import Codes, Mask, Rows
from reconciler.aio.tasks import WorkerThread
from reconciler.analysis.capacity.layout import tainted_devices
from reconciler.analysis.capacity.lines import Gauge, Line
from reconciler.analysis.capacity.measure import Solver
from reconciler.api.objects.claims import ResourceClaim
from reconciler.control.intake import Intake
from reconciler.control.ownership import Ownership
from reconciler.ha.shard import Side
from reconciler.operations.metrics import catalogue as of
from reconciler.operations.metrics.catalogue import MAX_COUNTERS, MAX_DRIVERS, OTHER
from reconciler.operations.metrics.meters import Reading, Values, labelled
from reconciler.state.devices.counters import Scale
from reconciler.state.devices.encoding.block import Block
from reconciler.state.devices.fleet import Fleet
from reconciler.state.devices.occupancy import Occupancy
from reconciler.state.devices.readiness import offered
from reconciler.state.devices.snapshot import Snapshot, Topology

STATES = ("held", "shared", "allocatable", "tainted", "blocked")
"""As `top` counts them. tainted: free, but only for claims with a toleration"""
POOLS_AT_ONCE = 64
"""Pools that are indexed before the event loop may run other tasks"""


class Holdings(Struct, frozen=True):
    """Devices and counters of the drivers of a fleet."""

    devices: dict[str, dict[str, int]]
    """Driver -> state -> devices"""
    counters: dict[str, dict[str, tuple[float, float]]]
    """Driver -> counter -> published and available amount, in the unit of the counter"""


class _FleetIndex(Struct, frozen=True):
    """The counted devices and counter sets of a fleet, independent of allocations."""

    drivers: tuple[str, ...]
    rows: Rows
    """(n,) counted rows of the fleet"""
    driver_of: Codes
    """(n,) position in `drivers`"""
    tainted: Mask
    """(n,) devices that need a toleration"""
    sets: tuple[tuple[int, Scale, Rows], ...]
    """Position in `drivers`, scale, and its (m,) counter sets"""


class Capacity(Struct, eq=False):
    """Counts on request and caches the result until the snapshot changes.

    A changed fleet costs a look at each pool, in several steps. A changed allocation costs a few passes over
    arrays.

    `ready` tells whether all objects were listed. Before that, nothing is counted.
    """

    _snapshot: Callable[[], Snapshot]
    ready: Callable[[], bool] = lambda: True
    _topology: ref[Topology] | None = None
    _index: _FleetIndex | None = None
    _version: int = -1
    holdings: Holdings = field(default_factory=lambda: Holdings({}, {}))

    async def refresh(self) -> None:
        """Update `holdings`. If cancelled, they stay unchanged."""
        if not self.ready():
            return
        snapshot = self._snapshot()
        if snapshot.version == self._version:
            return
        topology = snapshot.topology
        del snapshot  # while a snapshot is referenced, every change of an allocation copies its columns
        if self._index is None or self._topology is None or self._topology() is not topology:
            self._index = await _index_fleet(topology)
            self._topology = ref(topology)
        snapshot = self._snapshot()
        if snapshot.topology is topology:  # otherwise it has changed meanwhile; the next call counts
            self.holdings = _count(self._index, topology.fleet, snapshot.occupancy)
            self._version = snapshot.version


async def _index_fleet(topology: Topology) -> _FleetIndex:
    """Only counter sets of the newest generation count, and only of drivers with series of their own.

    Counters of different drivers have different units.
    """
    fleet = topology.fleet
    drivers, place = _drivers(fleet)
    found: dict[tuple[int, Scale], list[int]] = {}
    for at, pool in enumerate(fleet.pools):
        if at % POOLS_AT_ONCE == 0:
            await asyncio.sleep(0)
        newest = max(block.generation for block in pool.blocks)
        driver = place[pool.id.driver]
        for number, columns in enumerate(pool.counters.sets):
            if columns.id.generation == newest and columns.counters and drivers[driver] != OTHER:
                found.setdefault((driver, columns.scale), []).append(int(fleet.first_set[at]) + number)
    rows = np.flatnonzero(offered(topology))
    code = np.array([place[pool.id.driver] for pool in fleet.pools], dtype=np.int32)
    driver_of = code[fleet.pool_of[rows]] if len(rows) else np.zeros(0, np.int32)
    sets = tuple((driver, scale, np.array(at, dtype=np.intp)) for (driver, scale), at in found.items())
    return _FleetIndex(drivers, rows, driver_of, tainted_devices(fleet, topology.rules, rows), sets)


def _drivers(fleet: Fleet) -> tuple[tuple[str, ...], dict[str, int]]:
    """The drivers with series, and the position of every driver in them."""
    sizes: dict[str, int] = {}
    for pool in fleet.pools:
        sizes[pool.id.driver] = sizes.get(pool.id.driver, 0) + pool.size
    ordered = sorted(sizes, key=lambda driver: (-sizes[driver], driver))
    shown = sorted(ordered[:MAX_DRIVERS])
    place = {driver: at for at, driver in enumerate(shown)}
    hidden = ordered[MAX_DRIVERS:]
    place |= dict.fromkeys(hidden, len(shown))
    return tuple([*shown, OTHER] if hidden else shown), place


def state_masks(occupancy: Occupancy, rows: Rows, tainted: Mask) -> tuple[Mask, ...]:
    """(n,) each: the counted rows (n,) in each of STATES."""
    held, sharing, fits = (column[rows] for column in (occupancy.held, occupancy.sharing, occupancy.fits))
    free = fits & ~held & ~sharing
    return held, sharing & ~held, free & ~tainted, free & tainted, ~(fits | held | sharing)


def _count(index: _FleetIndex, fleet: Fleet, occupancy: Occupancy) -> Holdings:
    masks = state_masks(occupancy, index.rows, index.tainted)
    size = len(index.drivers)
    counts = [np.bincount(index.driver_of[mask], minlength=size) for mask in masks]
    devices = {
        driver: {state: int(count[at]) for state, count in zip(STATES, counts, strict=True)}
        for at, driver in enumerate(index.drivers)
    }
    counters: dict[str, dict[str, tuple[float, float]]] = {}
    for driver, name, total, left in _sums(index, fleet, occupancy):
        of_driver = counters.setdefault(driver, {})
        before = of_driver.get(name, (0.0, 0.0))
        of_driver[name] = (before[0] + total, before[1] + left)
    return Holdings(
        devices, {driver: dict(sorted(of.items())[:MAX_COUNTERS]) for driver, of in counters.items()}
    )


def _sums(index: _FleetIndex, fleet: Fleet, occupancy: Occupancy) -> Iterator[tuple[str, str, float, float]]:
    """Driver, counter, published and available. As floats: only decisions need exact amounts."""
    for driver, scale, sets in index.sets:
        width = len(scale.counters)
        units = np.array(scale.units, dtype=np.float64) / 1e9
        totals = fleet.totals[sets, :width].sum(axis=0, dtype=np.float64) * units
        left = occupancy.left[sets, :width].sum(axis=0, dtype=np.float64) * units
        for name, total, rest in zip(scale.counters, totals.tolist(), left.tolist(), strict=True):
            yield index.drivers[driver], name, total, rest


def capacity_readings(capacity: Capacity) -> list[Reading]:
    """Published and held devices. Refresh `capacity` before."""
    return [
        Reading(of.DEVICES, lambda: _devices(capacity)),
        Reading(of.COUNTER_CAPACITY, lambda: _counters(capacity, 0)),
        Reading(of.COUNTER_AVAILABLE, lambda: _counters(capacity, 1)),
    ]


def _devices(capacity: Capacity) -> Values:
    return [
        ((driver, state), number)
        for driver, states in capacity.holdings.devices.items()
        for state, number in states.items()
    ]


def _counters(capacity: Capacity, which: int) -> Values:
    return [
        ((driver, counter), both[which])
        for driver, counters in capacity.holdings.counters.items()
        for counter, both in counters.items()
    ]


_Series = Iterator[tuple[tuple[str, ...], float]]


class ProfileFits(Struct, eq=False):
    """How many more devices of each profile fit. The solver caches earlier searches.

    `ready` tells whether all objects were listed.
    """

    _snapshot: Callable[[], Snapshot]
    ready: Callable[[], bool]
    _worker: WorkerThread = field(default_factory=lambda: WorkerThread("profile fits"))
    _gauge: Gauge = field(default_factory=lambda: Gauge(Solver()))
    _version: int = -1
    lines: list[Line] = []
    """One per driver, for the drivers with most devices"""

    async def refresh(self) -> None:
        """Update `lines`, unless an update is running. If cancelled, they stay unchanged."""
        if not self.ready() or self._worker.busy:
            return
        snapshot = self._snapshot()
        if snapshot.version == self._version:
            return
        found = await self._worker.run(lambda _: self._gauge.lines(snapshot, "driver"))
        self._version = snapshot.version
        self.lines = sorted(found, key=lambda line: (-line.devices, line.driver))[:MAX_DRIVERS]

    def fits(self) -> _Series:
        """(driver, profile) -> devices that still fit."""
        for line in self.lines:
            yield from (((line.driver, one.profile), float(one.fits)) for one in line.profiles)

    def fragmentation(self) -> _Series:
        """(driver, profile) -> fragmentation; none if nothing is available."""
        for line in self.lines:
            for one in line.profiles:
                if one.fragmentation is not None:
                    yield (line.driver, one.profile), one.fragmentation

    def stranded(self) -> _Series:
        """Driver -> the largest stranded part of an available counter; none if nothing is available."""
        for line in self.lines:
            parts = [one.stranded / one.left for one in line.counters if one.left]
            if parts:
                yield (line.driver,), max(parts)

    def physical(self) -> _Series:
        """(driver, state) -> physical devices."""
        for line in self.lines:
            yield (line.driver, "full"), float(line.full)
            yield (line.driver, "open"), float(line.physical - line.full)

    def use(self) -> _Series:
        """Driver -> the share of its physical devices that is held."""
        return (((line.driver,), line.use) for line in self.lines)


def profile_readings(fits: ProfileFits) -> list[Reading]:
    """How full the fleet is, and devices that still fit. Refresh `fits` before."""
    return [
        Reading(of.PHYSICAL, fits.physical),
        Reading(of.USE, fits.use),
        Reading(of.PROFILE_FITS, fits.fits),
        Reading(of.PROFILE_FRAGMENTATION, fits.fragmentation),
        Reading(of.STRANDED, fits.stranded),
    ]


OBJECTS_AT_ONCE = 1024
"""Objects that are counted before the event loop may run other tasks: a millisecond"""

T = TypeVar("T")


class ObjectCounts(Struct, eq=False):
    """The claims and slices of a shard. Before all kinds are listed, nothing is counted."""

    _intake: Intake
    _ours: Ownership
    claims: dict[str, int] = {}
    """State -> claims"""
    slices: dict[str, int] = {}
    """How nodes are selected -> slices"""
    oldest: float | None = None
    """When the oldest claim was created that we have to allocate, in seconds since 1970"""

    def readings(self) -> list[Reading]:
        """Refresh before."""
        return [
            labelled(of.CLAIMS, lambda: self.claims),
            Reading(of.OLDEST_PENDING, self._oldest),
            labelled(of.SLICES, lambda: self.slices),
        ]

    async def refresh(self) -> None:
        """Count again. If cancelled, the counts stay unchanged."""
        if not self._intake.listed.is_set():
            return
        claims, slices = Counter(allocated=0, unallocated=0), Counter(per_device=0)
        oldest: ResourceClaim | None = None
        store = self._intake.store
        async for claim in _in_steps(store.claims.values()):
            if self._ours.side(claim, lambda: store.snapshot().classes).side is Side.ELSEWHERE:
                continue
            claims["unallocated" if claim.allocation is None else "allocated"] += 1
            if self._is_pending(claim) and (oldest is None or _created(claim) < _created(oldest)):
                oldest = claim
        async for block in _in_steps(store.supply.inventory.all_blocks):
            slices[_node_selection(block)] += 1
        created = oldest.metadata.created if oldest is not None else None
        self.oldest = created.timestamp() if created is not None else None
        self.claims, self.slices = dict(claims), dict(slices)

    def _is_pending(self, claim: ResourceClaim) -> bool:
        """Whether we have to allocate a claim: it is ours, or of a gated pod."""
        if claim.allocation is not None or claim.deleting or claim.metadata.creation_timestamp is None:
            return False
        return self._ours.claims(claim) or self._intake.is_gated(claim.key)

    def _oldest(self) -> Values:
        return [] if self.oldest is None else [((), self.oldest)]


async def _in_steps(things: Iterable[T]) -> AsyncIterator[T]:
    for number, thing in enumerate(list(things), 1):
        yield thing
        if number % OBJECTS_AT_ONCE == 0:
            await asyncio.sleep(0)


def _created(claim: ResourceClaim) -> str:
    """The API server writes all times in one format, which sorts as text."""
    return claim.metadata.creation_timestamp or ""


def _node_selection(block: Block) -> str:
    if block.per_device_node_selection:
        return "per_device"
    if block.all_nodes:
        return "all_nodes"
    if block.selector >= 0:
        return "node_selector"
    return "node_name" if block.node_name else "none"
