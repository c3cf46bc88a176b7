"""How many devices each driver publishes, and how many are held: arrays counted, not devices walked."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from weakref import ref

import numpy as np

from kernels.types import Codes, Mask, Rows
from reconciler.api.objects.semantics import Semantics
from reconciler.operations.metrics.catalogue import MAX_COUNTERS, MAX_DRIVERS, OTHER
from reconciler.state.devices.occupancy.occupancy import Occupancy
from reconciler.state.devices.pools.counters import Scale
from reconciler.state.devices.pools.fleet import Fleet
from reconciler.state.devices.pools.pool import Pool
from reconciler.state.devices.snapshot.snapshot import Snapshot

STATES = ("held", "shared", "allocatable", "blocked")
AT_ONCE = 64
"""Pools looked at before the loop may go on with other work"""


@dataclass(frozen=True, slots=True)
class Holdings:
    """What the drivers of a fleet have, and what of it is taken."""

    devices: dict[str, dict[str, int]]
    """Driver -> state -> devices"""
    counters: dict[str, dict[str, tuple[float, float]]]
    """Driver -> counter -> what is published and what is left, in the counter's own unit"""


@dataclass(frozen=True, slots=True)
class _Of:
    """What of a pool counts."""

    offered: Mask
    """(n,) devices that some node could use, as far as slices tell"""
    sets: tuple[tuple[Scale, Rows], ...]
    """Counter sets of the newest generation, as positions in the pool, by their scale"""


@dataclass(frozen=True, slots=True)
class _Index:
    """What can be prepared for a fleet, whatever is held in it."""

    drivers: tuple[str, ...]
    rows: Rows
    """(n,) rows of the fleet that count"""
    driver_of: Codes
    """(n,) position in `drivers`"""
    sets: tuple[tuple[int, Scale, Rows], ...]
    """Position in `drivers`, scale, and the (m,) counter sets that have it"""


class Capacity:
    """Counts when asked, and keeps the answer for as long as the picture stays as it is.

    A fleet that changed costs a look at each of its new pools, a few at a time; a hold that changed
    costs a few passes over arrays.
    """

    def __init__(self, picture: Callable[[], Snapshot], *, ready: Callable[[], bool] = lambda: True) -> None:
        """`ready` tells whether the picture is whole: until then to look costs much and tells little."""
        self._picture = picture
        self._ready = ready
        self._pools: dict[Pool, _Of] = {}
        self._fleet: ref[Fleet] | None = None
        self._index: _Index | None = None
        self._version = -1
        self.holdings = Holdings({}, {})

    async def refresh(self) -> None:
        """Bring `holdings` up to date. Cancelled: they stay as they were."""
        if not self._ready():
            return
        world = self._picture()
        if world.version == self._version:
            return
        fleet, rules = world.fleet, world.rules
        del world  # while somebody holds it, every change of a hold copies its columns
        if self._index is None or self._fleet is None or self._fleet() is not fleet:
            looked: dict[Pool, _Of] = {}
            for at, pool in enumerate(fleet.pools):
                known = self._pools.get(pool)
                looked[pool] = known or _look(pool, rules)
                if known is None and at % AT_ONCE == 0:
                    await asyncio.sleep(0)
            self._pools = looked
            self._index = _index(fleet, looked)
            self._fleet = ref(fleet)
        world = self._picture()
        if world.fleet is fleet:  # otherwise the slices changed meanwhile: next time
            self.holdings = _count(self._index, fleet, world.occupancy)
            self._version = world.version


def _look(pool: Pool, rules: Semantics) -> _Of:
    newest = max(block.generation for block in pool.blocks)
    found: dict[Scale, list[int]] = {}
    for at, columns in enumerate(pool.counters.sets):
        if columns.id.generation == newest and columns.counters:
            found.setdefault(columns.scale, []).append(at)
    sets = tuple((scale, np.array(rows, dtype=np.intp)) for scale, rows in found.items())
    return _Of(pool.offered(rules), sets)


def _index(fleet: Fleet, pools: Mapping[Pool, _Of]) -> _Index:
    of_pool = [pools[pool] for pool in fleet.pools]
    drivers, place = _drivers(fleet)
    rows = np.flatnonzero(np.concatenate([np.zeros(0, np.bool_), *(found.offered for found in of_pool)]))
    code = np.array([place[pool.id.driver] for pool in fleet.pools], dtype=np.int32)
    found: dict[tuple[int, Scale], list[Rows]] = {}
    for at, (pool, one) in enumerate(zip(fleet.pools, of_pool, strict=True)):
        if drivers[place[pool.id.driver]] == OTHER:
            continue  # counters of different drivers have different units
        for scale, local in one.sets:
            found.setdefault((place[pool.id.driver], scale), []).append(local + fleet.first_set[at])
    sets = tuple((driver, scale, np.concatenate(pieces)) for (driver, scale), pieces in found.items())
    return _Index(drivers, rows, code[fleet.pool_of[rows]] if len(rows) else np.zeros(0, np.int32), sets)


def _drivers(fleet: Fleet) -> tuple[tuple[str, ...], dict[str, int]]:
    """Drivers that are shown, and for every driver its position among them."""
    sizes: dict[str, int] = {}
    for pool in fleet.pools:
        sizes[pool.id.driver] = sizes.get(pool.id.driver, 0) + pool.size
    ordered = sorted(sizes, key=lambda driver: (-sizes[driver], driver))
    shown = sorted(ordered[:MAX_DRIVERS])
    place = {driver: at for at, driver in enumerate(shown)}
    hidden = ordered[MAX_DRIVERS:]
    place |= dict.fromkeys(hidden, len(shown))
    return tuple([*shown, OTHER] if hidden else shown), place


def _count(index: _Index, fleet: Fleet, occupancy: Occupancy) -> Holdings:
    held, sharing, fits = (
        column[index.rows] for column in (occupancy.held, occupancy.sharing, occupancy.fits)
    )
    masks = (held, sharing & ~held, fits & ~held & ~sharing, ~(fits | held | sharing))
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


def _sums(index: _Index, fleet: Fleet, occupancy: Occupancy) -> Iterator[tuple[str, str, float, float]]:
    """Driver, counter, published and left. In floating point: exact amounts are for decisions."""
    for driver, scale, sets in index.sets:
        width = len(scale.counters)
        units = np.array(scale.units, dtype=np.float64) / 1e9
        totals = fleet.totals[sets, :width].sum(axis=0, dtype=np.float64) * units
        left = occupancy.left[sets, :width].sum(axis=0, dtype=np.float64) * units
        for name, total, rest in zip(scale.counters, totals.tolist(), left.tolist(), strict=True):
            yield index.drivers[driver], name, total, rest
