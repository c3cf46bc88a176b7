"""The current state of one chart: the holders of devices, and the available counters."""

from collections.abc import Hashable, Iterator

import numpy as np
from msgspec import Struct

from kernels.types import Amounts, Rows
from reconciler.analysis.capacity.layout import tainted_devices
from reconciler.analysis.explain.shortage import amount
from reconciler.api.objects.meta import ObjectKey
from reconciler.operations.page.charts import Chart
from reconciler.operations.page.layout import Slots, slots_of
from reconciler.state.devices.fleet import Fleet
from reconciler.state.devices.snapshot import Snapshot

PROFILE = "profile"
"""The attribute with the profile of a partition. Without it, the name of the device is used."""


class Shown(Struct, frozen=True):
    """One device."""

    name: str
    profile: str
    state: str
    """One of capacity.STATES"""
    claims: tuple[ObjectKey, ...]
    consumed: tuple[tuple[str, str], ...]
    """Capacity and the consumed amount"""


class Scene(Struct, frozen=True):
    """All data of a drawing, without references to the snapshot."""

    chart: Chart
    nodes: tuple[str, ...]
    """Nodes that the pool names; empty if it has node selectors"""
    devices: tuple[Shown, ...]
    draws: Amounts
    """(n, C) consumption of each device from the set"""
    counters: tuple[str, ...]
    totals: tuple[int, ...]
    left: tuple[int, ...]
    units: tuple[int, ...]
    slots: tuple[Slots, ...]

    @property
    def fingerprint(self) -> Hashable:
        """Equal for scenes of one chart that have the same drawing."""
        return self.chart, self.devices, self.left

    def amount(self, counter: int, number: int) -> str:
        """An amount of a counter as a Kubernetes quantity."""
        return str(amount(number * self.units[counter]))


def scene(chart: Chart, snapshot: Snapshot) -> Scene | None:
    """The current scene of a chart; None if its pool is gone or published again."""
    fleet = snapshot.fleet
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
        left = tuple(snapshot.occupancy.left[number, : len(counters)].tolist())
        draws = _draws(fleet, rows, number)[:, : len(counters)]
    return Scene(
        chart=chart,
        nodes=pool.nodes or (),
        devices=tuple(_devices(rows, snapshot)),
        draws=draws,
        counters=counters,
        totals=totals,
        left=left,
        units=units,
        slots=tuple(slots_of(counters, totals, draws)),
    )


def _draws(fleet: Fleet, rows: Rows, number: int) -> Amounts:
    here = fleet.sets[rows] == number
    return np.where(here[:, :, None], fleet.table[fleet.draws[rows]], 0).sum(axis=1, dtype=np.int64)


def _devices(rows: Rows, snapshot: Snapshot) -> Iterator[Shown]:
    tainted = tainted_devices(snapshot.fleet, snapshot.rules, rows)
    for row, needs_toleration in zip(rows.tolist(), tainted.tolist(), strict=True):
        yield _device(row, snapshot, tainted=needs_toleration)


def _device(row: int, snapshot: Snapshot, *, tainted: bool) -> Shown:
    fleet, occupancy = snapshot.fleet, snapshot.occupancy
    device = fleet.id_of(row)
    held, sharing = bool(occupancy.held[row]), bool(occupancy.sharing[row])
    if held:
        state = "held"
    elif sharing:
        state = "shared"
    elif not occupancy.fits[row]:
        state = "blocked"
    else:
        state = "tainted" if tainted else "allocatable"
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
