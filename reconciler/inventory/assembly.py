"""Putting a fleet together from pools. What did not change is copied from the fleet before, in long runs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from kernels.index import invert
from kernels.types import Codes, Rows
from reconciler.cel.rows import Column
from reconciler.cel.rows import Rows as CelRows
from reconciler.inventory.block import COLUMNS, Block
from reconciler.inventory.counters import DrawTable
from reconciler.inventory.fleet import Fleet
from reconciler.inventory.pool import Pool
from reconciler.inventory.scopes import gather
from reconciler.inventory.tainting import taint
from reconciler.inventory.vocabulary import Lexicon, Name
from reconciler.inventory.words import Words
from reconciler.objects.meta import PoolID
from reconciler.objects.taintrules import DeviceTaintRule


class Run(NamedTuple):
    """Neighbouring pools that stand unchanged, and as neighbours, in the fleet before; or one fresh pool."""

    first: int
    """Position of the first pool in the new fleet"""
    pools: tuple[Pool, ...]
    before: int
    """Position of the first pool in the fleet before, -1 for a fresh pool"""


@dataclass(frozen=True, slots=True)
class Layout:
    """How the new fleet is made of runs."""

    previous: Fleet | None
    pools: tuple[Pool, ...]
    runs: tuple[Run, ...]
    start: Rows
    """(pools + 1,)"""
    first_set: Rows
    """(pools + 1,)"""

    def rows(self, run: Run) -> slice:
        """The run's rows in the new fleet."""
        return slice(int(self.start[run.first]), int(self.start[run.first + len(run.pools)]))

    def old_rows(self, run: Run) -> slice:
        """The run's rows in the fleet before."""
        assert self.previous is not None
        start = self.previous.start
        return slice(int(start[run.before]), int(start[run.before + len(run.pools)]))

    def sets(self, run: Run) -> slice:
        """The run's counter sets in the new fleet."""
        return slice(int(self.first_set[run.first]), int(self.first_set[run.first + len(run.pools)]))

    def old_sets(self, run: Run) -> slice:
        """The run's counter sets in the fleet before."""
        assert self.previous is not None
        first = self.previous.first_set
        return slice(int(first[run.before]), int(first[run.before + len(run.pools)]))


def lay_out(pools: Mapping[PoolID, Pool], previous: Fleet | None) -> Layout:
    """The pools in driver and pool order by bytes (POOL-14), and which of them can be copied."""
    ordered = tuple(pools[key] for key in sorted(pools, key=lambda p: (p.driver.encode(), p.pool.encode())))
    return Layout(
        previous=previous,
        pools=ordered,
        runs=tuple(_runs(ordered, previous)),
        start=_ends([pool.size for pool in ordered]),
        first_set=_ends([len(pool.counters.sets) for pool in ordered]),
    )


def _ends(sizes: Sequence[int]) -> Rows:
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.intp)]).astype(np.intp)


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
        yield Run(at, ordered[at:stop], before)
        at = stop


def _position(pool: Pool, previous: Fleet | None) -> int:
    """Where the very same pool stands in the fleet before; -1 if it does not."""
    at = previous.index.get(pool.id, -1) if previous is not None else -1
    return at if previous is not None and at >= 0 and previous.pools[at] is pool else -1


def assemble(layout: Layout, rules: Sequence[DeviceTaintRule], words: Lexicon, table: DrawTable) -> Fleet:
    """The columns of a layout. `rules` must be those of the fleet before, if there is one to copy from."""
    columns = tuple(c for pool in layout.pools for c in pool.counters.sets)
    matrix = table.matrix(max((len(c.counters) for c in columns), default=0))
    totals = np.zeros((len(columns), matrix.shape[1]), dtype=np.int64)
    for row, published in enumerate(columns):
        totals[row, : len(published.totals)] = published.totals
    codes = {name: _coded(layout, name) for name in COLUMNS}
    shared = _joined(layout, lambda f: f.shared, lambda b: b.shared, np.bool_)
    sets, draws = _draws(layout)
    fleet = Fleet(
        words=words,
        pools=layout.pools,
        start=layout.start,
        first_set=layout.first_set,
        pool_of=np.repeat(np.arange(len(layout.pools), dtype=np.int32), np.diff(layout.start)),
        codes=codes,
        cel=_cel_rows(layout, words, codes["driver"], shared),
        anywhere=_joined(layout, lambda f: f.anywhere, lambda b: b.anywhere, np.bool_),
        shared=shared,
        binds=_joined(layout, lambda f: f.binds, lambda b: b.binds, np.bool_),
        sets=sets,
        draws=draws,
        table=matrix,
        totals=totals,
        by_set=invert(sets, len(columns)),
        set_group=_groups(layout.pools),
        set_columns=columns,
        exclusion=gather(layout.pools, layout.start, layout.first_set, sets),
        index={pool.id: at for at, pool in enumerate(layout.pools)},
    )
    fresh = [layout.rows(run) for run in layout.runs if run.before < 0]
    for rule in rules:
        taint(fleet, rule, fresh)
    for array in (*codes.values(), fleet.anywhere, shared, fleet.binds, sets, draws, totals, fleet.pool_of):
        array.setflags(write=False)
    return fleet


def _coded(layout: Layout, name: str) -> Codes:
    return _joined(layout, lambda fleet: fleet.codes[name], lambda block: block.codes[name], np.int32)


def _joined(
    layout: Layout,
    of_fleet: Callable[[Fleet], np.ndarray[Any, Any]],
    of_block: Callable[[Block], np.ndarray[Any, Any]],
    dtype: type,
) -> np.ndarray[Any, Any]:
    """(D,) one column: cut from the fleet before, or taken from the blocks of fresh pools."""
    pieces: list[np.ndarray[Any, Any]] = []
    for run in layout.runs:
        if run.before >= 0 and layout.previous is not None:
            pieces.append(of_fleet(layout.previous)[layout.old_rows(run)])
        else:
            pieces += [of_block(block) for pool in run.pools for block in pool.blocks]
    return np.concatenate(pieces) if pieces else np.zeros(0, dtype=dtype)


def _groups(pools: Sequence[Pool]) -> Codes:
    numbers: dict[tuple[PoolID, int], int] = {}
    codes = [
        numbers.setdefault((p.id, c.id.generation), len(numbers)) for p in pools for c in p.counters.sets
    ]
    return np.array(codes, dtype=np.int32)


def _draws(layout: Layout) -> tuple[Codes, Codes]:
    """(D, K) sets and draws, with sets numbered fleet-wide."""
    width = max((pool.counters.of_device.shape[1] for pool in layout.pools), default=0)
    size = int(layout.start[-1])
    sets = np.full((size, width), -1, dtype=np.int32)
    draws = np.full((size, width), -1, dtype=np.int32)
    for run in layout.runs:
        rows, first_set = layout.rows(run), layout.sets(run).start
        if run.before >= 0 and layout.previous is not None:
            local = layout.previous.sets[layout.old_rows(run)][:, :width]
            shift = first_set - layout.old_sets(run).start
            drawn = layout.previous.draws[layout.old_rows(run)][:, :width]
        else:
            local, drawn, shift = run.pools[0].counters.of_device, run.pools[0].counters.draws, first_set
        sets[rows, : local.shape[1]] = np.where(local >= 0, local + shift, -1)
        draws[rows, : drawn.shape[1]] = drawn
    return sets, draws


def _cel_rows(layout: Layout, words: Lexicon, driver: Codes, shared: np.ndarray[Any, Any]) -> CelRows:
    return CelRows(
        size=len(driver),
        driver=Column(driver, words.drivers.values),
        attributes=_named(layout, lambda f: f.cel.attributes, lambda b: b.attributes, words.attribute),
        capacity=_named(layout, lambda f: f.cel.capacity, lambda b: b.capacity, words.amount),
        shared=shared,
        unreadable=_joined(layout, lambda f: f.cel.unreadable, lambda b: b.unreadable, np.bool_),
        version=object(),
    )


def _named(
    layout: Layout,
    of_fleet: Callable[[Fleet], Mapping[tuple[str, str], Column]],
    of_block: Callable[[Block], Mapping[Name, Codes]],
    words: Callable[[Name], Words[Any]],
) -> dict[tuple[str, str], Column]:
    size = int(layout.start[-1])
    columns: dict[Name, Codes] = {}

    def put(name: Name, rows: slice, codes: Codes) -> None:
        if name not in columns:
            columns[name] = np.full(size, -1, dtype=np.int32)
        columns[name][rows] = codes

    for run in layout.runs:
        rows = layout.rows(run)
        if run.before >= 0 and layout.previous is not None:
            for (domain, id_), column in of_fleet(layout.previous).items():
                put(Name(domain, id_), rows, column.codes[layout.old_rows(run)])
            continue
        row = rows.start
        for block in run.pools[0].blocks:
            for name, codes in of_block(block).items():
                put(name, slice(row, row + len(block.names)), codes)
            row += len(block.names)
    for codes in columns.values():
        codes.setflags(write=False)
    return {name: Column(codes, words(name).values) for name, codes in columns.items()}
