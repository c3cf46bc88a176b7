"""Every device of every pool as columns, in the order in which first fit tries them. Frozen.

Rows are sorted by driver, pool name, slice name and position in the slice (POOL-9, POOL-14); all
generations are present, since each node judges for itself which one counts (POOL-4).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernels.index import Inverse, invert
from kernels.types import Amounts, Codes, Mask, Rows
from reconciler.cel.rows import Column
from reconciler.cel.rows import Rows as CelRows
from reconciler.inventory.block import COLUMNS, Block
from reconciler.inventory.counters import CounterSetColumns, DrawTable
from reconciler.inventory.pool import Pool
from reconciler.inventory.vocabulary import Lexicon, Name, Words
from reconciler.objects.meta import DeviceID, PoolID
from reconciler.objects.slices import DeviceTaint
from reconciler.objects.taintrules import DeviceTaintRule


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Fleet:
    """Columns of D devices; all arrays are read-only. Two fleets are equal only if they are the same."""

    words: Lexicon
    pools: tuple[Pool, ...]
    start: Rows
    """(pools + 1,) first row of each pool"""
    pool_of: Codes
    """(D,) position in `pools`"""
    codes: Mapping[str, Codes]
    """Column of block.COLUMNS -> (D,); `taints` includes what rules add"""
    cel: CelRows
    anywhere: Mask
    """(D,) reachable from all nodes"""
    shared: Mask
    """(D,) allows multiple allocations"""
    binds: Mask
    """(D,) ties a claim to the node"""
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
    """(S,) sets of one pool and generation have the same number; they stand and fall together (CTR-6)"""
    set_columns: tuple[CounterSetColumns, ...]
    """what the S rows of `totals` mean"""
    index: Mapping[PoolID, int]
    """pool -> position in `pools`"""

    @property
    def size(self) -> int:
        return len(self.pool_of)

    def rows_of(self, device: DeviceID) -> tuple[int, ...]:
        """Rows of the device of that name; none if it is not published, several if generations overlap."""
        at = self.index.get(device.pool_id)
        if at is None:
            return ()
        first = int(self.start[at])
        return tuple(first + row for row in self.pools[at].rows_of(device.device))

    def id_of(self, row: int) -> DeviceID:
        """The names of the device in a row."""
        at = int(self.pool_of[row])
        pool = self.pools[at]
        return DeviceID(pool.id.driver, pool.id.pool, pool.names[row - int(self.start[at])])


def assemble(
    pools: Mapping[PoolID, Pool],
    rules: Iterable[DeviceTaintRule],
    words: Lexicon,
    table: DrawTable,
) -> Fleet:
    """Put pools together, in driver and pool order by bytes (POOL-14)."""
    ordered = tuple(pools[key] for key in sorted(pools, key=lambda p: (p.driver.encode(), p.pool.encode())))
    blocks = [block for pool in ordered for block in pool.blocks]
    start = np.concatenate([[0], np.cumsum([pool.size for pool in ordered], dtype=np.intp)]).astype(np.intp)
    codes = {name: _joined([b.codes[name] for b in blocks], np.int32) for name in COLUMNS}
    pool_of = np.repeat(np.arange(len(ordered), dtype=np.int32), np.diff(start))
    sets, draws = _counter_columns(ordered, len(pool_of))
    columns = tuple(c for pool in ordered for c in pool.counters.sets)
    matrix = table.matrix(max((len(c.counters) for c in columns), default=0))
    totals = np.zeros((len(columns), matrix.shape[1]), dtype=np.int64)
    for row, published in enumerate(columns):
        totals[row, : len(published.totals)] = published.totals
    shared = _joined([b.shared for b in blocks], np.bool_)
    fleet = Fleet(
        words=words,
        pools=ordered,
        start=start,
        pool_of=pool_of,
        codes=codes,
        cel=_cel_rows(blocks, words, codes["driver"], shared),
        anywhere=_joined([b.anywhere for b in blocks], np.bool_),
        shared=shared,
        binds=_joined([b.binds for b in blocks], np.bool_),
        sets=sets,
        draws=draws,
        table=matrix,
        totals=totals,
        by_set=invert(sets, len(columns)),
        set_group=_groups(ordered),
        set_columns=columns,
        index={pool.id: at for at, pool in enumerate(ordered)},
    )
    for rule in rules:
        _taint(fleet, rule)
    _freeze(
        start,
        pool_of,
        sets,
        draws,
        totals,
        fleet.set_group,
        fleet.anywhere,
        shared,
        fleet.binds,
        *codes.values(),
    )
    return fleet


def _freeze(*arrays: np.ndarray) -> None:
    for array in arrays:
        array.setflags(write=False)


def _joined(pieces: Sequence[np.ndarray], dtype: type) -> np.ndarray:
    return np.concatenate(pieces) if pieces else np.zeros(0, dtype=dtype)


def _groups(pools: Sequence[Pool]) -> Codes:
    numbers: dict[tuple[PoolID, int], int] = {}
    codes = [
        numbers.setdefault((p.id, c.id.generation), len(numbers)) for p in pools for c in p.counters.sets
    ]
    return np.array(codes, dtype=np.int32)


def _counter_columns(pools: Sequence[Pool], size: int) -> tuple[Codes, Codes]:
    """(D, K) sets and draws, with sets numbered fleet-wide."""
    width = max((pool.counters.of_device.shape[1] for pool in pools), default=0)
    sets = np.full((size, width), -1, dtype=np.int32)
    draws = np.full((size, width), -1, dtype=np.int32)
    first_set = row = 0
    for pool in pools:
        local = pool.counters.of_device
        stop = row + pool.size
        sets[row:stop, : local.shape[1]] = np.where(local >= 0, local + first_set, -1)
        draws[row:stop, : local.shape[1]] = pool.counters.draws
        first_set += len(pool.counters.sets)
        row = stop
    return sets, draws


def _cel_rows(blocks: Sequence[Block], words: Lexicon, driver: Codes, shared: Mask) -> CelRows:
    size = len(driver)
    return CelRows(
        size=size,
        driver=Column(driver, words.drivers.values),
        attributes=_named(blocks, size, lambda block: block.attributes, words.attribute),
        capacity=_named(blocks, size, lambda block: block.capacity, words.amount),
        shared=shared,
        unreadable=_joined([b.unreadable for b in blocks], np.bool_),
        version=object(),
    )


def _named(
    blocks: Sequence[Block],
    size: int,
    entries: Callable[[Block], Mapping[Name, Codes]],
    words: Callable[[Name], Words[Any]],
) -> dict[tuple[str, str], Column]:
    columns: dict[Name, Codes] = {}
    row = 0
    for block in blocks:
        stop = row + len(block.names)
        for name, codes in entries(block).items():
            if name not in columns:
                columns[name] = np.full(size, -1, dtype=np.int32)
            columns[name][row:stop] = codes
        row = stop
    for codes in columns.values():
        codes.setflags(write=False)
    return {name: Column(codes, words(name).values) for name, codes in columns.items()}


def _taint(fleet: Fleet, rule: DeviceTaintRule) -> None:
    """Add the rule's taint to every device it names (TNT-7). Without a selector it names none."""
    selector = rule.spec.device_selector
    if selector is None:
        return
    hit = np.ones(fleet.size, dtype=np.bool_)
    if selector.driver is not None:
        hit &= fleet.codes["driver"] == fleet.words.drivers.find(selector.driver)
    if selector.pool is not None:
        of_name = [at for at, pool in enumerate(fleet.pools) if pool.id.pool == selector.pool]
        hit &= np.isin(fleet.pool_of, of_name)
    if selector.device is not None:
        named = np.zeros(fleet.size, dtype=np.bool_)
        for at, pool in enumerate(fleet.pools):
            named[[int(fleet.start[at]) + row for row in pool.rows_of(selector.device)]] = True
        hit &= named
    column = fleet.codes["taints"]
    for code in np.unique(column[hit]).tolist():
        before: tuple[DeviceTaint, ...] = fleet.words.taints.values[code] if code >= 0 else ()
        column[hit & (column == code)] = fleet.words.taints.code((*before, rule.spec.taint))
