"""Counter sets of one pool as rows of integers. The unit of a counter represents all its amounts exactly.

Source: docs/reference/rules/counters.md; POOL-11 for what makes a pool invalid.
"""

from collections.abc import Iterable, Mapping
from math import gcd
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from kernels.groups import distinct
from kernels.types import Amounts, Codes
from reconciler.api.objects.quantity import INT64_MAX
from reconciler.api.objects.slices import CapacityPolicy
from reconciler.state.devices.encoding.block import Block
from reconciler.state.devices.encoding.vocabulary import Vocabulary

NOTHING: Mapping[str, Mapping[str, frozenset[int]]] = MappingProxyType({})

MAX_COUNTERS = 128
"""Most counters of one set. The API allows 32; older versions may need more. It bounds the matrix."""
MAX_SETS_PER_DEVICE = 8
"""Most sets that one device draws from. The API allows 2; nested partitions of older versions need more."""

MAX_ASKING = 1 << 20
"""Most devices of a pool that draw what requests say, each of them up to all that there is (SCC-5)"""


class SetID(NamedTuple):
    """A counter set within its pool. Generations do not share counters."""

    generation: int
    name: str


class CounterSetColumns(Struct, frozen=True):
    """What one counter set publishes; counter i is `counters[i]` and counts in `units[i]` billionths."""

    id: SetID
    scale: "Scale"
    totals: tuple[int, ...]
    policies: Mapping[str, CapacityPolicy] = MappingProxyType({})
    """Counter -> what requests can have of it, for counters that restrict that"""

    @property
    def counters(self) -> tuple[str, ...]:
        return self.scale.counters

    @property
    def units(self) -> tuple[int, ...]:
        return self.scale.units


class PoolCounters(Struct, frozen=True):
    """The counter sets of a pool and what its n devices draw from them."""

    sets: tuple[CounterSetColumns, ...]
    of_device: Codes
    """(n, k) position in `sets`, -1 for none"""
    draws: Codes
    """(n, k) row of the table of draws, -1 for none"""
    problems: dict[int, str]
    """generation -> why its counters are invalid"""


class Scale(NamedTuple):
    """The counters of a set and the unit of each, in billionths."""

    counters: tuple[str, ...]
    units: tuple[int, ...]


Finer = Mapping[str, Mapping[str, frozenset[int]]]
"""Counter set -> counter -> further billionths that must be whole units"""


class DrawTable:
    """Distinct draws of the whole fleet; equal amounts share a row. It only grows."""

    def __init__(self) -> None:
        self._rows: dict[tuple[int, ...], int] = {}
        self._known: dict[tuple[Scale, int], int] = {}
        self._matrix = np.zeros((0, 0), dtype=np.int64)
        self._widest = 0
        """Most counters of a set so far"""

    def row(self, scale: Scale, draw: int, vocabulary: Vocabulary) -> int:
        """The row of a draw, given by its code, in the units of a counter set."""
        known = self._known.get((scale, draw))
        if known is None:
            wanted = dict(vocabulary.draws.values[draw])
            amounts = tuple(
                wanted.get(name, 0) // unit for name, unit in zip(scale.counters, scale.units, strict=True)
            )
            known = self._known[scale, draw] = self._rows.setdefault(amounts, len(self._rows))
        return known

    def scale(
        self,
        totals: Mapping[str, int],
        drawn: Mapping[int, int],
        vocabulary: Vocabulary,
        finer: Mapping[str, frozenset[int]],
        asked: frozenset[str] = frozenset(),
    ) -> Scale | str:
        """The units of a counter set that publishes `totals`, or why there are none.

        `drawn` is draw code -> number of devices, `asked` the counters that requests say the amounts of.
        """
        self._widest = max(self._widest, len(totals))
        return _scale(totals, drawn, vocabulary, finer, asked)

    def matrix(self) -> Amounts:
        """(P, C) all rows, padded with zeros to the most counters that a set has had so far. Read-only."""
        width = self._widest
        if self._matrix.shape != (len(self._rows), width):
            matrix = np.zeros((len(self._rows), width), dtype=np.int64)
            for amounts, row in self._rows.items():
                matrix[row, : len(amounts)] = amounts
            matrix.setflags(write=False)
            self._matrix = matrix
        return self._matrix


def compile_counters(
    blocks: tuple[Block, ...], vocabulary: Vocabulary, table: DrawTable, finer: Finer = NOTHING
) -> PoolCounters:
    """The counter columns of a pool whose slices are `blocks`, in device order."""
    problems: dict[int, str] = {}
    published: dict[SetID, dict[str, int]] = {}
    policies: dict[SetID, dict[str, CapacityPolicy]] = {}
    for block in blocks:
        for name, amounts, restricted in (
            vocabulary.published.values[block.published] if block.shares_counters else ()
        ):
            key = SetID(block.generation, name)
            if key in published:
                problems.setdefault(key.generation, f"two counter sets are named {name}")
            elif len(amounts) > MAX_COUNTERS:
                problems.setdefault(key.generation, f"counter set {name}: more than {MAX_COUNTERS} counters")
            else:
                published[key], policies[key] = dict(amounts), dict(restricted)
    drawn = _draws_by_set(blocks, vocabulary, published, problems)
    asked = _asked_of(blocks, vocabulary)
    sets = []
    for key in sorted(published):
        of_set = published[key], drawn.get(key, {}), asked.get(key, frozenset())
        columns = _columns(key, *of_set, vocabulary, table, problems, finer)
        sets.append(replace(columns, policies=policies[key]) if policies[key] else columns)
    return _encode(blocks, tuple(sets), vocabulary, table, problems)


def _asked_of(blocks: tuple[Block, ...], vocabulary: Vocabulary) -> dict[SetID, frozenset[str]]:
    """Set -> the counters of which requests say how much a device draws (SCC-1)."""
    found: dict[SetID, frozenset[str]] = {}
    for block in blocks:
        codes = block.column("asked")
        for code in distinct(codes[codes >= 0]).tolist():
            for one in vocabulary.asked.values[code]:
                key = SetID(block.generation, one.set)
                found[key] = found.get(key, frozenset()) | {one.counter}
    return found


def _draws_by_set(
    blocks: tuple[Block, ...],
    vocabulary: Vocabulary,
    published: dict[SetID, dict[str, int]],
    problems: dict[int, str],
) -> dict[SetID, dict[int, int]]:
    """Set -> draw code -> number of devices. Dangling references become problems (POOL-11.3)."""
    drawn: dict[SetID, dict[int, int]] = {}
    for block in blocks:
        if block.sets.shape[1] > MAX_SETS_PER_DEVICE:
            problems.setdefault(
                block.generation, f"a device draws from more than {MAX_SETS_PER_DEVICE} counter sets"
            )
            continue
        pairs, first, counts = np.unique(
            np.stack([block.sets.ravel(), block.draws.ravel()], axis=1),
            axis=0,
            return_index=True,
            return_counts=True,
        )
        # In device order, so that the reported problem does not depend on codes.
        for at in np.argsort(first).tolist():
            (set_code, draw), count = pairs[at].tolist(), int(counts[at])
            if set_code < 0:
                continue
            key = SetID(block.generation, vocabulary.sets.values[set_code])
            problem = _dangling(key, vocabulary.draws.values[draw], published, block)
            if problem:
                problems.setdefault(key.generation, problem)
                continue
            of_set = drawn.setdefault(key, {})
            of_set[draw] = of_set.get(draw, 0) + count
    return drawn


def _dangling(
    key: SetID, draw: tuple[tuple[str, int], ...], published: dict[SetID, dict[str, int]], block: Block
) -> str:
    where = f"slice {block.name}"
    if key not in published:
        return f"{where}: a device draws from counter set {key.name}, which the pool does not have"
    for counter, nanos in draw:
        if counter not in published[key]:
            return f"{where}: a device draws counter {counter}, which counter set {key.name} does not have"
        if nanos < 0:  # taking it would give more to others
            return f"{where}: a device draws a negative amount of counter {counter} from set {key.name}"
    return ""


def _columns(
    key: SetID,
    totals: dict[str, int],
    drawn: dict[int, int],
    asked: frozenset[str],
    vocabulary: Vocabulary,
    table: DrawTable,
    problems: dict[int, str],
    finer: Finer,
) -> CounterSetColumns:
    scale = table.scale(totals, drawn, vocabulary, finer.get(key.name, {}), asked)
    if isinstance(scale, str):
        problems.setdefault(key.generation, f"counter set {key.name}: {scale}")
        return CounterSetColumns(key, Scale((), ()), ())
    return CounterSetColumns(
        key,
        scale,
        tuple(totals[name] // unit for name, unit in zip(scale.counters, scale.units, strict=True)),
    )


def _scale(
    totals: Mapping[str, int],
    drawn: Mapping[int, int],
    vocabulary: Vocabulary,
    finer: Mapping[str, frozenset[int]],
    asked: frozenset[str],
) -> Scale | str:
    counters = tuple(sorted(totals))
    amounts: dict[str, list[int]] = {name: [totals[name], *finer.get(name, ())] for name in counters}
    at_most = {name: abs(totals[name]) for name in counters}
    for draw, count in drawn.items():
        for name, nanos in vocabulary.draws.values[draw]:
            amounts[name].append(nanos)
            at_most[name] += count * abs(nanos)
    for name in asked & amounts.keys():
        amounts[name].append(_finest(at_most[name]))
    units = {name: gcd(*amounts[name]) or 1 for name in counters}
    for name in counters:
        if at_most[name] // units[name] > INT64_MAX:
            return f"the amounts of counter {name} are too far apart to be added exactly"
    return Scale(counters, tuple(units.values()))


def _finest(at_most: int) -> int:
    """The smallest power of a thousand billionths in which so many devices can be charged such an amount."""
    unit = 1
    while MAX_ASKING * at_most // unit > INT64_MAX:
        unit *= 1000
    return unit


def _encode(
    blocks: tuple[Block, ...],
    sets: tuple[CounterSetColumns, ...],
    vocabulary: Vocabulary,
    table: DrawTable,
    problems: dict[int, str],
) -> PoolCounters:
    position = {columns.id: at for at, columns in enumerate(sets)}
    size = sum(len(block.names) for block in blocks)
    width = max(
        (block.sets.shape[1] for block in blocks if block.sets.shape[1] <= MAX_SETS_PER_DEVICE), default=0
    )
    of_device = np.full((size, width), -1, dtype=np.int32)
    draws = np.full((size, width), -1, dtype=np.int32)
    rows: dict[tuple[int, int], int] = {}
    start = 0
    for block in blocks:
        stop = start + len(block.names)
        if block.generation not in problems:
            for at, (k, set_code, draw) in _drawing(block):
                place = position[SetID(block.generation, vocabulary.sets.values[set_code])]
                if (place, draw) not in rows:
                    rows[place, draw] = table.row(sets[place].scale, draw, vocabulary)
                of_device[start + at, k] = place
                draws[start + at, k] = rows[place, draw]
        start = stop
    return PoolCounters(sets=sets, of_device=of_device, draws=draws, problems=problems)


def _drawing(block: Block) -> Iterable[tuple[int, tuple[int, int, int]]]:
    for at, k in np.argwhere(block.sets >= 0).tolist():
        yield at, (k, int(block.sets[at, k]), int(block.draws[at, k]))
