"""The charts of a fleet: one per counter set or group of devices without counters; and what each shows.

As in the diagrams of KEP-4815, each slot is a column, each profile a row, each device a span of slots. Other
counters are shown by amount.
"""

import asyncio
import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING
from weakref import ref

import numpy as np
from msgspec import Struct

from kernels.types import Amounts, Codes, Rows
from reconciler.analysis.capacity.layout import tainted_devices
from reconciler.analysis.explain.shortage import amount
from reconciler.api.objects.meta import DeviceID, ObjectKey, PoolID
from reconciler.operations.metrics.devices import STATES, state_masks
from reconciler.state.devices.fleet import Fleet
from reconciler.state.devices.pool import Pool
from reconciler.state.devices.readiness import readiness
from reconciler.state.devices.snapshot import Snapshot

if TYPE_CHECKING:
    from reconciler.operations.page.pending import PendingIndex

AT_ONCE = 64
"""New pools that are indexed before the event loop may run other tasks"""
TRIES = 4
"""Attempts if slices change during the indexing"""
CELLS = 128
"""Devices without counters on one chart: the maximum of a slice"""


class Chart(Struct, frozen=True, eq=False):
    """One chart: a counter set with the devices that consume it, or devices without counters."""

    of: Pool
    set: int
    """Position among the counter sets of the pool; -1 for none"""
    name: str
    """Name of the counter set; empty for none"""
    rows: Rows
    """(n,) devices of the newest generation, as positions in the pool"""

    @property
    def pool(self) -> PoolID:
        return self.of.id


class Charts:
    """The charts of one fleet, in its order."""

    def __init__(self, fleet: Fleet, of_pool: Mapping[Pool, tuple[Chart, ...]]) -> None:
        self.fleet = ref(fleet)
        self.all: tuple[Chart, ...] = tuple([chart for pool in fleet.pools for chart in of_pool[pool]])
        self.pool_of: Codes = np.repeat(
            np.arange(len(fleet.pools), dtype=np.int32), [len(of_pool[pool]) for pool in fleet.pools]
        )
        """(charts,) position of the pool in the fleet"""
        self.first = np.concatenate([[0], np.cumsum([len(of_pool[pool]) for pool in fleet.pools])])
        """(pools + 1,) first chart of each pool"""
        sizes = [len(chart.rows) for chart in self.all]
        starts = fleet.start[self.pool_of]
        pieces = [chart.rows + start for chart, start in zip(self.all, starts.tolist(), strict=True)]
        self.rows: Rows = np.concatenate([np.zeros(0, np.intp), *pieces])
        """(R,) rows of the devices of all charts; a device of two counter sets is there twice"""
        self.chart_of_row: Rows = np.repeat(np.arange(len(self.all)), sizes)
        """(R,)"""

    def of_device(self, device: DeviceID, fleet: Fleet) -> Iterator[int]:
        """Positions of the charts that show a device."""
        at = fleet.index.get(device.pool_id)
        if at is None:
            return
        rows = fleet.pools[at].rows_of(device.device)
        for chart in range(int(self.first[at]), int(self.first[at + 1])):
            if np.isin(rows, self.all[chart].rows).any():
                yield chart


class Index:
    """What several panels read: the charts of the newest fleet, and pending claims by reason.

    New pools are indexed in several steps.
    """

    def __init__(self, snapshot: Callable[[], Snapshot], pending: "PendingIndex") -> None:
        self._snapshot = snapshot
        self.pending = pending
        self._pools: dict[Pool, tuple[Chart, ...]] = {}
        self._charts: Charts | None = None
        self._lock = asyncio.Lock()

    async def charts(self) -> Charts:
        """The charts of the current fleet, or of a recent one if slices change all the time.

        If cancelled, the indexing starts again at the next call.
        """
        async with self._lock:
            for _ in range(TRIES):
                snapshot = self._snapshot()
                fleet = snapshot.fleet
                del snapshot
                if self._charts is not None and self._charts.fleet() is fleet:
                    break
                indexed: dict[Pool, tuple[Chart, ...]] = {}
                fresh = 0
                for pool in fleet.pools:
                    known = self._pools.get(pool)
                    indexed[pool] = tuple(_charts_of(pool)) if known is None else known
                    fresh += known is None
                    if known is None and fresh % AT_ONCE == 0:
                        await asyncio.sleep(0)
                self._pools = indexed
                self._charts = Charts(fleet, indexed)
            assert self._charts is not None
            return self._charts


def _charts_of(pool: Pool) -> Iterator[Chart]:
    newest = max(block.generation for block in pool.blocks)
    current = np.zeros(pool.size, dtype=np.bool_)
    for at, block in enumerate(pool.blocks):
        if block.generation == newest:
            current[pool.offsets[at] : pool.offsets[at + 1]] = True
    of_device = pool.counters.of_device
    for position, columns in enumerate(pool.counters.sets):
        if columns.id.generation == newest:
            rows = np.flatnonzero(current & (of_device == position).any(axis=1))
            yield Chart(pool, position, columns.id.name, rows)
    plain = np.flatnonzero(current & (of_device < 0).all(axis=1))
    for start in range(0, len(plain), CELLS):
        yield Chart(pool, -1, "", plain[start : start + CELLS])


_NUMBERED = re.compile(r"(.*?)[-_.]?(\d{1,6})", re.DOTALL)
MOST_SLOTS = 64
"""Slots of one group; with more, the spans could not be distinguished"""


class Slots(Struct, frozen=True):
    """Counters that are adjacent slots, each with a total of 1."""

    name: str
    columns: tuple[int, ...]
    """Their positions among the counters, in the order of their numbers"""
    labels: tuple[str, ...]
    """Their numbers"""


class Run(Struct, frozen=True):
    """Adjacent slots from `start` up to, not including, `stop`."""

    start: int
    stop: int


def slots_of(counters: Sequence[str], totals: Sequence[int], draws: Amounts) -> list[Slots]:
    """The groups of slots among the counters of a set.

    totals (C,)   in the unit of each counter
    draws  (n, C) consumption of the devices

    A group is two or more counters with a total of 1 whose names differ in a number at the end, and that
    devices consume completely or not at all.
    """
    groups: dict[str, list[tuple[int, int]]] = {}
    published = np.array(totals, dtype=np.int64)
    whole = ((draws == 0) | (draws == published)).all(axis=0)
    for column, name in enumerate(counters):
        found = _NUMBERED.fullmatch(name)
        if found is None or totals[column] != 1 or not whole[column]:
            continue
        groups.setdefault(found[1], []).append((int(found[2]), column))
    made = []
    for name, members in sorted(groups.items()):
        members.sort()
        if 2 <= len(members) <= MOST_SLOTS:
            columns = tuple(column for _, column in members)
            made.append(Slots(name or "slot", columns, tuple(str(number) for number, _ in members)))
    return made


def runs(drawn: Sequence[bool]) -> tuple[Run, ...]:
    """The runs of adjacent consumed slots."""
    found, start = [], None
    for at, one in enumerate((*drawn, False)):
        if one and start is None:
            start = at
        elif not one and start is not None:
            found.append(Run(start, at))
            start = None
    return tuple(found)


def lanes(profiles: Sequence[object], spans: Sequence[tuple[Run, ...]]) -> list[list[int]]:
    """Rows of devices. Devices of one profile share a row if they do not overlap.

    profiles (n,) key of devices that differ only in position
    spans    (n,) the slots of each device; devices without slots are ignored

    Widest first, then by position.
    """
    order = sorted(
        (at for at in range(len(spans)) if spans[at]),
        key=lambda at: (-_width(spans[at]), str(profiles[at]), spans[at][0].start, at),
    )
    made: list[tuple[object, list[int]]] = []
    for at in order:
        for profile, row in made:
            if profile == profiles[at] and not any(_overlap(spans[at], spans[other]) for other in row):
                row.append(at)
                break
        else:
            made.append((profiles[at], [at]))
    return [row for _, row in made]


def _width(spans: tuple[Run, ...]) -> int:
    return sum(run.stop - run.start for run in spans)


def _overlap(one: tuple[Run, ...], other: tuple[Run, ...]) -> bool:
    return any(a.start < b.stop and b.start < a.stop for a in one for b in other)


PROFILE = "profile"
"""The attribute with the profile of a partition. Without it, the name of the device is used."""


class ShownDevice(Struct, frozen=True):
    """One device."""

    name: str
    profile: str
    state: str
    """One of STATES"""
    claims: tuple[ObjectKey, ...]
    consumed: tuple[tuple[str, str], ...]
    """Capacity and the consumed amount"""


class Scene(Struct, frozen=True):
    """All data of a drawing, without references to the snapshot."""

    chart: Chart
    nodes: tuple[str, ...]
    """Nodes that the pool names; empty if it has node selectors"""
    devices: tuple[ShownDevice, ...]
    draws: Amounts
    """(n, C) consumption of each device from the set"""
    counters: tuple[str, ...]
    totals: tuple[int, ...]
    left: tuple[int, ...]
    units: tuple[int, ...]
    slots: tuple[Slots, ...]
    flaw: str
    """Why the pool cannot be used; then none of the devices is allocated or counted"""

    @property
    def fingerprint(self) -> Hashable:
        """Equal for scenes of one chart that have the same drawing."""
        return self.chart, self.devices, self.left, self.flaw

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
    rows, state = chart.rows + int(fleet.start[at]), readiness(snapshot.topology)
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
        flaw="" if state.ready[rows].any() else state.problems.get(at, ""),
    )


def _draws(fleet: Fleet, rows: Rows, number: int) -> Amounts:
    here = fleet.sets[rows] == number
    return np.where(here[:, :, None], fleet.table[fleet.draws[rows]], 0).sum(axis=1, dtype=np.int64)


def _devices(rows: Rows, snapshot: Snapshot) -> Iterator[ShownDevice]:
    tainted = tainted_devices(snapshot.fleet, snapshot.rules, rows)
    states = np.argmax(state_masks(snapshot.occupancy, rows, tainted), axis=0)
    for row, state in zip(rows.tolist(), states.tolist(), strict=True):
        yield _device(row, STATES[state], snapshot)


def _device(row: int, state: str, snapshot: Snapshot) -> ShownDevice:
    fleet, occupancy = snapshot.fleet, snapshot.occupancy
    device, sharing = fleet.id_of(row), bool(occupancy.sharing[row])
    claims = occupancy.claims_of(device) if sharing or occupancy.held[row] else ()
    consumed = occupancy.consumed.get(row, {}) if sharing else {}
    return ShownDevice(
        device.device,
        _profile(row, fleet),
        state,
        claims,
        tuple((key, str(amount(nanos))) for key, nanos in consumed.items()),
    )


def _profile(row: int, fleet: Fleet) -> str:
    for (_, name), column in fleet.cel.attributes.items():
        if name == PROFILE and (code := int(column.codes[row])) >= 0:
            value = column.values[code]
            if isinstance(value, str):
                return value
    return ""
