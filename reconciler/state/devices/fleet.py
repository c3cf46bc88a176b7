"""All devices of all pools as columns, in first-fit order; and how they are joined from pools. Frozen.

Rows are sorted by driver, pool name, slice name and position in the slice (POOL-9, POOL-14). All generations
are present, since the current generation may differ between nodes (POOL-4).

Unchanged pools are copied from the previous fleet in long runs. Where every row stays at its place, the new
fleet is the previous one with some pools replaced. DeviceTaintRules add taints (TNT-7).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from kernels.groups import Inverse, distinct, invert
from kernels.types import Amounts, Codes, Mask, Rows
from reconciler.api.objects.meta import DeviceID, PoolID
from reconciler.cel.rows import Rows as CelRows
from reconciler.cel.rows import followed
from reconciler.state.caches import Caches
from reconciler.state.devices.counters import CounterSetColumns
from reconciler.state.devices.encoding.block import COLUMNS, FLAGS
from reconciler.state.devices.encoding.tables import DeviceColumns, Part, cel_rows, covers, join
from reconciler.state.devices.encoding.vocabulary import Vocabulary
from reconciler.state.devices.exclusion import Exclusion, gather
from reconciler.state.devices.exclusion_rules import PoolExclusion
from reconciler.state.devices.pool import Pool
from reconciler.state.devices.tainting import Tainting, with_taints


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Fleet:
    """Columns of D devices. All arrays are read-only. Fleets compare by identity."""

    vocabulary: Vocabulary
    pools: tuple[Pool, ...]
    start: Rows
    """(pools + 1,) first row of each pool"""
    first_set: Rows
    """(pools + 1,) first counter set of each pool"""
    pool_of: Codes
    """(D,) position in `pools`"""
    devices: DeviceColumns
    """The first columns below are some of these; fleets share those that are equal"""
    codes: Mapping[str, Codes] = field(init=False)
    """Column of block.COLUMNS -> (D,); `taints` includes what rules add"""
    anywhere: Mask = field(init=False)
    """(D,) reachable from all nodes"""
    shared: Mask = field(init=False)
    """(D,) allows multiple allocations"""
    binds: Mask = field(init=False)
    """(D,) binds a claim to the node"""
    cel: CelRows
    sets: Codes
    """(D, K) row of `totals`, -1 for none"""
    draws: Codes
    """(D, K) row of `table`, -1 for none"""
    table: Amounts
    """(P, C) distinct draws, in the unit of each set's counter"""
    totals: Amounts
    """(S, C) what each counter set publishes"""
    by_set: Inverse
    """counter set -> devices that draw from it"""
    set_group: Codes
    """(S,) the first set of the same pool and generation; one over-committed set disables all (CTR-6)"""
    set_columns: tuple[CounterSetColumns, ...]
    """Names and units of the S rows of `totals`"""
    exclusion: Exclusion | None
    """Which devices can be held together; None if no device restricts that"""
    index: Mapping[tuple[str, str], int]
    """(driver, pool) -> position in `pools`"""
    caches: Caches = field(default_factory=Caches, repr=False)
    """Values derived from the devices; they do not depend on the holds"""

    def __post_init__(self) -> None:
        flags = dict(zip(FLAGS, self.devices.flags, strict=True))
        object.__setattr__(self, "codes", dict(zip(COLUMNS, self.devices.codes, strict=False)))
        for name in ("anywhere", "shared", "binds"):
            object.__setattr__(self, name, flags[name])

    @property
    def size(self) -> int:
        return len(self.pool_of)

    def fork(self) -> "Fleet":
        """The same columns with separate caches."""
        return replace(self, caches=self.caches.fork())

    @property
    def values_in_use(self) -> int:
        """Number of vocabulary values in the columns; a missing value counts as one."""
        return sum(len(distinct(column)) for column in self.devices.codes)

    def pool(self, pool: PoolID) -> Pool | None:
        """A pool by name; None if it has no slices."""
        at = self.index.get(pool)
        return self.pools[at] if at is not None else None

    def rows_of(self, device: DeviceID) -> tuple[int, ...]:
        """The rows of a device: none if it is not published, several if generations overlap."""
        at = self.index.get(device[:2])
        if at is None:
            return ()
        first, rows = self.start.item(at), self.pools[at].positions.get(device[2], ())
        return (first + rows[0],) if len(rows) == 1 else tuple([first + row for row in rows])

    def id_of(self, row: int) -> DeviceID:
        """The names of the device in a row."""
        at = self.pool_of.item(row)
        pool = self.pools[at]
        return DeviceID(*pool.id, pool.names[row - self.start.item(at)])


def patched(
    previous: Fleet, pools: tuple[Pool, ...], replaced: Sequence[int], rules: Sequence[Tainting]
) -> Fleet | None:
    """The fleet of `pools`, which differs from the previous one at some positions.

    The replaced pools must have as many devices as before and the same counters. None if there are new
    columns, or if other devices exclude one another: then the fleet must be assembled.
    """
    if not all(_excludes_the_same(previous.pools[at].exclusion, pools[at].exclusion) for at in replaced):
        return None
    pieces = [piece for at in replaced for piece in _changed(previous, at, pools[at], rules)]
    if not pieces:  # the same columns, for other slices
        return replace(previous, pools=pools, caches=Caches())
    fresh = join([part for _, part in pieces])
    if not covers(previous.devices.header, fresh.header):
        return None
    rows = _joined([rows for rows, _ in pieces])
    devices = previous.devices.patched(rows, fresh)
    return replace(
        previous,
        pools=pools,
        devices=devices,
        cel=followed(cel_rows(devices, previous.vocabulary), previous.cel, rows),
        caches=Caches(),
    )


def _changed(previous: Fleet, at: int, pool: Pool, rules: Sequence[Tainting]) -> Iterator[tuple[slice, Part]]:
    """The rows of the slices that changed, with what is there now; those of the whole pool if slices have
    other sizes or rules concern it.
    """
    first, known = int(previous.start[at]), previous.pools[at]
    parts = with_taints(pool, rules, previous.vocabulary)
    if len(parts) != len(pool.blocks) or not np.array_equal(known.offsets, pool.offsets):
        yield slice(first, first + pool.size), join(parts)
        return
    for number, (old, new) in enumerate(zip(known.blocks, pool.blocks, strict=True)):
        if old is not new:
            rows = slice(first + int(pool.offsets[number]), first + int(pool.offsets[number + 1]))
            yield rows, parts[number]


def _joined(ranges: Sequence[slice]) -> slice | Rows:
    if len(ranges) == 1:
        return ranges[0]
    return np.concatenate([np.arange(rows.start, rows.stop) for rows in ranges])


def _excludes_the_same(before: PoolExclusion | None, now: PoolExclusion | None) -> bool:
    return before is now or (before is not None and now is not None and before.equals(now))


class Run(NamedTuple):
    """Adjacent pools that are unchanged and adjacent in the previous fleet too, or one fresh pool."""

    first: int
    """Position of the first pool in the new fleet"""
    pools: int
    """Number of pools"""
    before: int
    """Position of the first pool in the previous fleet; -1 for a fresh pool"""


class Layout(Struct, frozen=True):
    """The new fleet as a sequence of runs."""

    previous: Fleet | None
    pools: tuple[Pool, ...]
    runs: tuple[Run, ...]
    start: Rows
    """(pools + 1,)"""
    first_set: Rows
    """(pools + 1,)"""
    index: Mapping[tuple[str, str], int]
    """pool -> position in `pools`"""
    replaced: tuple[int, ...] | None
    """Positions of the pools that are new versions, if rows and counters stay as they are; otherwise None"""

    def fresh(self) -> Iterator[Pool]:
        """The pools that are not in the previous fleet."""
        for run in self.runs:
            if run.before < 0:
                yield from self.pools[run.first : run.first + run.pools]

    def rows(self, run: Run) -> slice:
        """The run's rows in the new fleet."""
        return _span(self.start, run.first, run.pools)

    def old_rows(self, run: Run) -> slice:
        """The run's rows in the previous fleet."""
        assert self.previous is not None
        return _span(self.previous.start, run.before, run.pools)

    def sets(self, run: Run) -> slice:
        """The run's counter sets in the new fleet."""
        return _span(self.first_set, run.first, run.pools)

    def old_sets(self, run: Run) -> slice:
        """The run's counter sets in the previous fleet."""
        assert self.previous is not None
        return _span(self.previous.first_set, run.before, run.pools)


def _span(offsets: Rows, first: int, pools: int) -> slice:
    return slice(int(offsets[first]), int(offsets[first + pools]))


def lay_out(pools: Mapping[PoolID, Pool], fresh: Collection[PoolID], previous: Fleet | None) -> Layout:
    """The pools ordered by the bytes of driver and pool name (POOL-14), and which of them can be copied.

    `fresh` are the pools that were built or removed since the previous fleet.
    """
    if previous is not None and all(pool in pools and pool in previous.index for pool in fresh):
        return _with_replaced(pools, sorted(previous.index[pool] for pool in fresh), previous)
    ordered = tuple(_ordered(pools))
    return Layout(
        previous=previous,
        pools=ordered,
        runs=tuple(_runs(ordered, previous)),
        start=_offsets([pool.size for pool in ordered]),
        first_set=_offsets([len(pool.counters.sets) for pool in ordered]),
        index={pool.id: at for at, pool in enumerate(ordered)},
        replaced=None,
    )


def _ordered(pools: Mapping[PoolID, Pool]) -> Iterator[Pool]:
    """The pools of one driver after those of another. Strings compare as their UTF-8 does.

    Only names are compared, by far the fastest way: nothing else runs while Python sorts a hundred thousand.
    """
    of_driver: dict[str, list[Pool]] = {}
    for pool in pools.values():
        of_driver.setdefault(pool.id.driver, []).append(pool)
    for driver in sorted(of_driver):
        yield from sorted(of_driver[driver], key=lambda pool: pool.id.pool)


def _with_replaced(pools: Mapping[PoolID, Pool], places: Sequence[int], previous: Fleet) -> Layout:
    """The layout of the previous fleet with some pools replaced by new versions."""
    ordered = list(previous.pools)
    runs: list[Run] = []
    at = 0
    for place in places:
        if at < place:
            runs.append(Run(at, place - at, at))
        ordered[place] = pools[ordered[place].id]
        runs.append(Run(place, 1, -1))
        at = place + 1
    if at < len(ordered):
        runs.append(Run(at, len(ordered) - at, at))
    exchanged = [(previous.pools[place], ordered[place]) for place in places]
    # The counters of a pool have as many rows as it has devices.
    if all(old.counters is new.counters for old, new in exchanged):
        start, first_set, replaced = previous.start, previous.first_set, tuple(places)
    else:
        start = _offsets([pool.size for pool in ordered])
        first_set, replaced = _offsets([len(pool.counters.sets) for pool in ordered]), None
    return Layout(previous, tuple(ordered), tuple(runs), start, first_set, previous.index, replaced)


def _offsets(sizes: Sequence[int]) -> Rows:
    return np.cumsum([0, *sizes], dtype=np.intp)


def _runs(ordered: tuple[Pool, ...], previous: Fleet | None) -> Iterator[Run]:
    at = 0
    while at < len(ordered):
        before = _position(ordered[at], previous)
        stop = at + 1
        if previous is not None and before >= 0:
            while stop < len(ordered) and before + stop - at < len(previous.pools):
                if ordered[stop] is not previous.pools[before + stop - at]:
                    break
                stop += 1
        yield Run(at, stop - at, before)
        at = stop


def _position(pool: Pool, previous: Fleet | None) -> int:
    """The position of the same pool object in the previous fleet; -1 if it is not there."""
    at = previous.index.get(pool.id, -1) if previous is not None else -1
    return at if previous is not None and at >= 0 and previous.pools[at] is pool else -1


def assemble(layout: Layout, rules: Sequence[Tainting], vocabulary: Vocabulary, matrix: Amounts) -> Fleet:
    """The columns of a layout. `rules` must be those of the previous fleet, if there is one.

    matrix (P, C)  all draws of the pools: `DrawTable.matrix`
    """
    if (
        layout.previous is not None
        and layout.replaced is not None
        and layout.previous.vocabulary is vocabulary
    ):
        fleet = patched(layout.previous, layout.pools, layout.replaced, rules)
        if fleet is not None:
            return fleet
    devices = DeviceColumns.joined(list(_parts(layout, rules, vocabulary)))
    counters = _counters(layout, matrix)
    for array in (counters.sets, counters.draws, counters.totals, pool_of := _pool_of(layout)):
        array.setflags(write=False)
    return Fleet(
        vocabulary=vocabulary,
        pools=layout.pools,
        start=layout.start,
        first_set=layout.first_set,
        pool_of=pool_of,
        devices=devices,
        cel=cel_rows(devices, vocabulary),
        **counters._asdict(),
        exclusion=gather(layout.pools, layout.start, layout.first_set, counters.sets),
        index=layout.index,
    )


def _parts(layout: Layout, rules: Sequence[Tainting], vocabulary: Vocabulary) -> Iterator[Part]:
    """The devices in order: ranges of the previous fleet, or the slices of fresh pools."""
    for run in layout.runs:
        if run.before >= 0 and layout.previous is not None:
            yield layout.previous.devices.cut(layout.old_rows(run))
        else:
            for pool in layout.pools[run.first : run.first + run.pools]:
                yield from with_taints(pool, rules, vocabulary)


def _pool_of(layout: Layout) -> Codes:
    if layout.previous is not None and layout.start is layout.previous.start:
        return layout.previous.pool_of
    return np.repeat(np.arange(len(layout.pools), dtype=np.int32), np.diff(layout.start))


class _Counters(NamedTuple):
    """The counter columns of `Fleet`, with the same names."""

    sets: Codes
    draws: Codes
    table: Amounts
    totals: Amounts
    by_set: Inverse
    set_group: Codes
    set_columns: tuple[CounterSetColumns, ...]


def _counters(layout: Layout, matrix: Amounts) -> _Counters:
    before = layout.previous
    columns = _set_columns(layout)
    if before is not None and layout.replaced is not None and matrix is before.table:
        totals, by_set, groups = before.totals, before.by_set, before.set_group
        return _Counters(before.sets, before.draws, matrix, totals, by_set, groups, columns)
    totals = np.zeros((len(columns), matrix.shape[1]), dtype=np.int64)
    groups = np.empty(len(columns), dtype=np.int32)
    for run in layout.runs:
        sets = layout.sets(run)
        if run.before >= 0 and before is not None:
            old = layout.old_sets(run)
            totals[sets, : before.totals.shape[1]] = before.totals[old]
            groups[sets] = before.set_group[old] + (sets.start - old.start)
            continue
        first: dict[int, int] = {}
        for row, published in enumerate(layout.pools[run.first].counters.sets, start=sets.start):
            totals[row, : len(published.totals)] = published.totals
            groups[row] = first.setdefault(published.id.generation, row)
    sets_of, draws = _draws(layout)
    return _Counters(sets_of, draws, matrix, totals, invert(sets_of, len(columns)), groups, columns)


def _set_columns(layout: Layout) -> tuple[CounterSetColumns, ...]:
    before = layout.previous
    if before is not None and layout.replaced is not None:
        return before.set_columns
    return tuple(
        chain.from_iterable(
            before.set_columns[layout.old_sets(run)]
            if run.before >= 0 and before is not None
            else layout.pools[run.first].counters.sets
            for run in layout.runs
        )
    )


def _draws(layout: Layout) -> tuple[Codes, Codes]:
    """(D, K) sets and draws, with sets numbered fleet-wide."""
    width = max((pool.counters.of_device.shape[1] for pool in layout.pools), default=0)
    size = int(layout.start[-1])
    sets = np.full((size, width), -1, dtype=np.int32)
    draws = np.full((size, width), -1, dtype=np.int32)
    if not width:
        return sets, draws
    for run in layout.runs:
        rows, first_set = layout.rows(run), layout.sets(run).start
        if run.before >= 0 and layout.previous is not None:
            local = layout.previous.sets[layout.old_rows(run)][:, :width]
            shift = first_set - layout.old_sets(run).start
            drawn = layout.previous.draws[layout.old_rows(run)][:, :width]
        else:
            own = layout.pools[run.first].counters
            local, drawn, shift = own.of_device, own.draws, first_set
        sets[rows, : local.shape[1]] = np.where(local >= 0, local + shift, -1)
        draws[rows, : drawn.shape[1]] = drawn
    return sets, draws
