"""One chart as it is now, read off a picture: who holds which device, and what the counters have left."""

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from kernels.types import Amounts
from reconciler.analysis.explain.shortage import amount
from reconciler.api.objects.meta import ObjectKey
from reconciler.operations.page.charts import Chart
from reconciler.operations.page.layout import Slots, slots_of
from reconciler.state.devices.pools.fleet import Fleet
from reconciler.state.devices.snapshot.snapshot import Snapshot

PROFILE = "profile"
"""The attribute by which drivers name the make of a partition; otherwise its own name has to do"""


@dataclass(frozen=True, slots=True)
class Shown:
    """One device."""

    name: str
    profile: str
    state: str
    """One of capacity.STATES"""
    claims: tuple[ObjectKey, ...]
    consumed: tuple[tuple[str, str], ...]
    """Capacity and how much of it is taken in shares"""


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything that a drawing shows. Holds nothing of the picture it was read off."""

    chart: Chart
    nodes: tuple[str, ...]
    """That the pool names; none if selectors tell"""
    devices: tuple[Shown, ...]
    draws: Amounts
    """(n, C) what each device draws of the set"""
    counters: tuple[str, ...]
    totals: tuple[int, ...]
    left: tuple[int, ...]
    units: tuple[int, ...]
    slots: tuple[Slots, ...]

    @property
    def fingerprint(self) -> Hashable:
        """Equal for scenes of one chart that look the same."""
        return self.chart, self.devices, self.left

    def amount(self, counter: int, number: int) -> str:
        """So much of a counter, as a person would write it."""
        return str(amount(number * self.units[counter]))


def scene(chart: Chart, world: Snapshot) -> Scene | None:
    """What a chart shows now; None if its pool is not published any more, or has been published anew."""
    fleet = world.fleet
    at = fleet.index.get(chart.pool)
    if at is None:
        return None
    pool = fleet.pools[at]
    if pool is not chart.of:
        return None
    rows = chart.rows + int(fleet.start[at])
    counters: tuple[str, ...] = ()
    totals: tuple[int, ...] = ()
    left: tuple[int, ...] = ()
    units: tuple[int, ...] = ()
    draws = np.zeros((len(rows), 0), dtype=np.int64)
    if chart.set >= 0:
        columns = pool.counters.sets[chart.set]
        number = chart.set + int(fleet.first_set[at])
        counters, units, totals = columns.counters, columns.units, columns.totals
        left = tuple(world.occupancy.left[number, : len(counters)].tolist())
        draws = _draws(fleet, rows, number)[:, : len(counters)]
    return Scene(
        chart=chart,
        nodes=pool.nodes or (),
        devices=tuple([_device(int(row), world) for row in rows]),
        draws=draws,
        counters=counters,
        totals=totals,
        left=left,
        units=units,
        slots=tuple(slots_of(counters, totals, draws)),
    )


def _draws(fleet: Fleet, rows: np.ndarray[tuple[int], np.dtype[np.intp]], number: int) -> Amounts:
    here = fleet.sets[rows] == number
    return np.where(here[:, :, None], fleet.table[fleet.draws[rows]], 0).sum(axis=1, dtype=np.int64)


def _device(row: int, world: Snapshot) -> Shown:
    fleet, occupancy = world.fleet, world.occupancy
    device = fleet.id_of(row)
    held, sharing = bool(occupancy.held[row]), bool(occupancy.sharing[row])
    if held:
        state = "held"
    elif sharing:
        state = "shared"
    else:
        state = "allocatable" if occupancy.fits[row] else "blocked"
    claims = occupancy.claims_of(device) if held or sharing else ()
    consumed = occupancy.consumed.get(row, {}) if sharing else {}
    return Shown(
        device.device,
        _profile(row, fleet),
        state,
        claims,
        tuple((key, str(amount(nanos))) for key, nanos in consumed.items()),
    )


def _profile(row: int, fleet: Fleet) -> str:
    at = int(fleet.pool_of[row])
    pool = fleet.pools[at]
    local = row - int(fleet.start[at])
    block = int(np.searchsorted(pool.offsets, local, side="right")) - 1
    device = pool.blocks[block].slice.spec.devices[local - int(pool.offsets[block])]
    for name, value in device.attributes.items():
        if name.rpartition("/")[2] == PROFILE and value.string:
            return value.string
    return ""
