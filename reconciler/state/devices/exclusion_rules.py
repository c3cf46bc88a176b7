"""Which devices of one pool can be held together: groups and expressions as names and marks of each scope.

Source: GRP-1 to GRP-7; GRP-10 and GRP-11 for `compatibleOnlyWith` and the pairs that it judges.

In mode `kep-5963` all held devices of a scope need one name in common; "no groups" is also a name.
Everything else is a mark. A device can ask for a mark; the other held devices of the scope must then meet
it. An expression is a mark, met by the devices for which it is true. In mode `pairwise` a list of groups is
a mark, met by the devices that share one of them or have no groups.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from kernels.exclusion import ALL, pack_bits
from kernels.types import Bits, Codes, Mask
from reconciler.api.objects.meta import DeviceID, PoolID
from reconciler.api.objects.semantics import COMPATIBILITY_GROUPS, GroupMode, Semantics
from reconciler.api.objects.slices import Device
from reconciler.cel.errors import COMPILING_COST, READING_COST, STATED_COST_LIMIT
from reconciler.cel.program import CelRefused, Selector, compile_selector
from reconciler.cel.rows import Rows as CelRows
from reconciler.state.devices.counters import PoolCounters
from reconciler.state.devices.encoding.block import Block
from reconciler.state.devices.encoding.tables import DeviceColumns, cel_rows
from reconciler.state.devices.encoding.vocabulary import Vocabulary


class Statement(NamedTuple):
    """An expression on the n devices of a pool."""

    by: Mask
    """(n,) the devices that state it"""
    true: Mask
    """(n,) the devices for which it is true"""


class Conflict(NamedTuple):
    """Devices that exclude others of their place: each of `by` excludes each other one of `against`."""

    by: Mask
    """(n,)"""
    against: Mask
    """(n,)"""


class JudgedPairs(Struct, frozen=True):
    """What decides which of n devices are judged together."""

    place: Codes
    """(n,) code of the place"""
    sets: Codes
    """(n, k) counter sets, -1 for none"""
    everywhere: bool
    """Whether all pairs of a place are judged, beside those that share a counter set"""

    @property
    def alone(self) -> Mask:
        """(n,) draws from no counter set"""
        found: Mask = np.all(self.sets < 0, axis=1)
        return found

    def with_any(self, by: Mask) -> Mask:
        """(n,) devices that are judged by the expression of one of the devices `by`."""
        found: Mask = np.isin(self.place, self.place[by if self.everywhere else by & self.alone])
        found |= np.isin(self.place, self.place[by]) & self.alone
        shared = self.sets[by]
        found |= np.isin(self.sets, shared[shared >= 0]).any(axis=1)
        return found & ~by if np.count_nonzero(by) == 1 else found


def judged_pairs(blocks: Sequence[Block], counters: PoolCounters, *, everywhere: bool) -> JudgedPairs:
    """The judged pairs of the devices of a pool. Two draws of a device from one set count once.

    Devices are judged within their place: the generation, and the node if every device of the pool has
    one. Two of them are judged if they share a counter set, wherever they are, or if one of them draws
    from none. A driver may also have all pairs of a place judged, beside these.

    Counter sets are scopes already. The other pairs get scopes of their own, as small as possible: the
    connected devices of a graph whose edges are the pairs that exclude each other. So what is held of
    one physical device is compared only with the devices of this physical device, even in a pool of
    thousands.
    """
    drawn = counters.of_device
    sets = drawn.copy()
    for k in range(1, drawn.shape[1]):
        sets[(drawn[:, :k] == drawn[:, k : k + 1]).any(axis=1), k] = -1
    return JudgedPairs(_place_of(blocks), sets, everywhere)


def _place_of(blocks: Sequence[Block]) -> Codes:
    """(n,) the place of each device, as a code."""
    nodes = np.concatenate([block.column("node") for block in blocks])
    if (nodes < 0).any():  # a device of no single node may be used beside any other
        nodes = np.zeros_like(nodes)
    generations = np.repeat([block.generation for block in blocks], [len(block.names) for block in blocks])
    _, place = np.unique(np.stack([generations, nodes]), axis=1, return_inverse=True)
    return place.reshape(-1).astype(np.int32)


def conflicts_apart(stated: Sequence[Statement], pairs: JudgedPairs) -> list[Conflict]:
    """The conflicts among pairs that are judged although they share no counter set."""
    found = (conflict for one in stated for conflict in _conflicts(one, pairs))
    return [conflict for conflict in found if conflict.by.any() and conflict.against.any()]


def _conflicts(one: Statement, pairs: JudgedPairs) -> Iterator[Conflict]:
    if pairs.everywhere:
        yield Conflict(one.by, ~one.true)
    else:
        alone = pairs.alone
        yield Conflict(one.by & alone, ~one.true)
        yield Conflict(one.by & ~alone, ~one.true & alone)


def scopes_apart(conflicts: Sequence[Conflict], place: Codes) -> Codes:
    """(n,) numbers of the scopes of these conflicts; -1 for devices without any.

    The devices of one conflict in one place are connected: each of `by` is joined to each of `against`.
    """
    count = len(place)
    label, linked = np.arange(count), np.zeros(count, dtype=np.bool_)
    places = int(place.max(initial=-1)) + 1
    for by, against in conflicts:
        both = _places(places, place[by]) & _places(places, place[against])
        rows = np.flatnonzero((by | against) & both[place])
        least = np.full(places, count)
        np.minimum.at(least, place[rows], label[rows])
        new = np.arange(count)
        new[label[rows]] = least[place[rows]]
        label = new[label]
        linked[rows] = True
    numbers = np.full(count, -1, dtype=np.int32)
    _, numbers[linked] = np.unique(label[linked], return_inverse=True)
    return numbers


def _places(size: int, found: Codes) -> Mask:
    """(size,) the places that occur."""
    mask = np.zeros(size, dtype=np.bool_)
    mask[found] = True
    return mask


_TOO_MUCH = (
    f"all expressions of the pool together take more than {STATED_COST_LIMIT} steps on its devices; "
    "use fewer or simpler expressions"
)


class Problem(Struct, frozen=True):
    """An expression that does not compile, or fails on a device. Such pairs are incompatible."""

    device: DeviceID
    """The device that states the expression"""
    message: str


def evaluate(
    pool: PoolID,
    blocks: Sequence[Block],
    devices: Sequence[Device],
    pairs: JudgedPairs,
    vocabulary: Vocabulary,
) -> tuple[list[Statement], tuple[Problem, ...]]:
    """The distinct expressions, and those that fail.

    Expressions without an answer are true for no device, so they are joined to one. Thus their number does
    not matter, and the cost limit bounds that of the others.
    """
    stating: dict[str, list[int]] = {}
    for row, device in enumerate(devices):
        if device.compatible_only_with is not None:
            stating.setdefault(device.compatible_only_with.expression, []).append(row)
    if not stating:
        return [], ()
    rows = cel_rows(DeviceColumns.joined(blocks), vocabulary)
    stated: list[Statement] = []
    unanswered = _mask(len(devices), ())
    problems: list[Problem] = []
    left = STATED_COST_LIMIT
    for expression, at in stating.items():
        by = DeviceID(*pool, devices[at[0]].name)
        left -= COMPILING_COST + READING_COST * len(expression)
        selector = _compiled(expression) if left > 0 else _TOO_MUCH
        if isinstance(selector, str):
            unanswered[at] = True
            problems.append(Problem(by, f"compatibleOnlyWith: {selector}"))
            continue
        masks = selector.masks(rows, left)
        too_much = selector.spent > left
        left -= selector.spent
        one = Statement(_mask(len(devices), at), masks.true)
        stated.append(one)
        failing = pairs.with_any(one.by) & masks.error
        if failing.any():
            # Finding out why it fails would take as many steps again.
            why = f": {_TOO_MUCH}" if too_much else _failure(selector, rows, failing, devices)
            problems.append(Problem(by, f"compatibleOnlyWith{why}"))
    if unanswered.any():
        stated.append(Statement(unanswered, _mask(len(devices), ())))
    return stated, tuple(problems)


def _mask(size: int, rows: Sequence[int]) -> Mask:
    mask = np.zeros(size, dtype=np.bool_)
    mask[list(rows)] = True
    return mask


def _compiled(expression: str) -> Selector | str:
    """The selector, or why there is none."""
    try:
        return compile_selector(expression)
    except CelRefused as refused:
        return str(refused)


def _failure(selector: Selector, rows: CelRows, failing: Mask, devices: Sequence[Device]) -> str:
    first = int(np.flatnonzero(failing)[0])
    more = int(np.count_nonzero(failing)) - 1
    others = f", and on {more} more" if more else ""
    return f" fails on {devices[first].name}{others}: {selector.explain(rows, first)}"


class Mark(NamedTuple):
    """A demand of some devices on the others in their scopes."""

    asks: Mask
    """(n, K) the devices that ask for it, only where they have a scope"""
    meets: Mask
    """(n, K) the devices that meet it"""


def numbered_by_scope(scopes: Codes, size: int, marks: Sequence[Mark]) -> tuple[Mask, Mask]:
    """(n, K, M) what devices ask for and meet; M is the largest number of marks that one scope asks for.

    A pool may have one expression for each physical device, but a scope uses only a few of them.

    scopes (n, K)  -1 for none
    size           number of scopes
    """
    count = np.zeros(size + 1, dtype=np.int32)
    of_mark = [_asking(scopes, size, mark.asks) for mark in marks]
    for asking in of_mark:
        count += asking
    shape = (*scopes.shape, max(int(count.max(initial=0)), 1))
    asks, meets = np.zeros(shape, dtype=np.bool_), np.ones(shape, dtype=np.bool_)
    number = np.zeros(size + 1, dtype=np.int32)
    for asking, mark in zip(of_mark, marks, strict=True):
        row, k = np.nonzero(asking[scopes])
        place = row, k, number[scopes[row, k]]
        asks[place], meets[place] = mark.asks[row, k], mark.meets[row, k]
        number += asking
    return asks, meets


def _asking(scopes: Codes, size: int, asks: Mask) -> Mask:
    """(size + 1,) the scopes in which a device asks; the last one stands for none."""
    found = np.zeros(size + 1, dtype=np.bool_)
    found[scopes[asks]] = True
    found[-1] = False
    return found


NO_GROUPS = ""
"""The name of devices without groups in mode `kep-5963`"""

Groups = Mapping[tuple[int, int], frozenset[str]]
"""(row, k) -> the groups that a device declares in a counter set; only where it draws from one"""


def groups_of(devices: Sequence[Device], scopes: Codes, counters: PoolCounters) -> Groups:
    """The groups of all devices in each of their counter sets."""
    found: dict[tuple[int, int], frozenset[str]] = {}
    for row, k in np.argwhere((scopes >= 0) & (scopes < len(counters.sets))).tolist():
        name = counters.sets[int(scopes[row, k])].id.name
        found[row, k] = frozenset(
            chain.from_iterable(
                draw.compatibility_groups
                for draw in devices[row].consumes_counters
                if draw.counter_set == name
            )
        )
    return found


def group_names(groups: Groups, scopes: Codes, mode: GroupMode, *, on: bool) -> Bits:
    """(n, K, W) names, numbered within each scope; W fits the largest number of names.

    `on` is whether the feature gate is on.
    """
    if on and mode == "pairwise":
        return np.full((*scopes.shape, 1), ALL, dtype=np.uint64)
    if not on:  # GRP-7: a device that declares groups is compatible with none
        names = np.full((*scopes.shape, 1), ALL, dtype=np.uint64)
        for at, declared in groups.items():
            names[at] = 0 if declared else ALL
        return names
    numbers: dict[int, dict[str, int]] = {}
    for (row, k), declared in groups.items():
        of_scope = numbers.setdefault(int(scopes[row, k]), {NO_GROUPS: 0})
        for name in sorted(declared):
            of_scope.setdefault(f"group {name}", len(of_scope))
    width = max((len(of_scope) for of_scope in numbers.values()), default=1)
    single = np.zeros((*scopes.shape, width), dtype=np.bool_)
    for (row, k), declared in groups.items():
        of_scope = numbers[int(scopes[row, k])]
        wanted = [of_scope[f"group {name}"] for name in declared] or [of_scope[NO_GROUPS]]
        single[row, k, wanted] = True
    names = pack_bits(single)
    undeclared = np.ones(scopes.shape, dtype=np.bool_)
    undeclared[tuple(np.array(list(groups), dtype=np.intp).reshape(-1, 2).T)] = False
    names[undeclared] = ALL
    return names


def group_marks(groups: Groups, scopes: Codes) -> list[Mark]:
    """Marks for the lists of groups, in mode `pairwise`: the first list of every set, the second, and so on.

    As many as one set has distinct lists, not as many as the pool has.
    """
    of_set: dict[int, list[tuple[tuple[int, int], frozenset[str]]]] = {}
    for at, declared in groups.items():
        of_set.setdefault(int(scopes[at]), []).append((at, declared))
    marks: list[Mark] = []
    for members in of_set.values():
        wanted = sorted({declared for _, declared in members if declared}, key=sorted)
        for number, one in enumerate(wanted):
            if number == len(marks):
                shape = scopes.shape
                marks.append(Mark(np.zeros(shape, dtype=np.bool_), np.ones(shape, dtype=np.bool_)))
            for at, declared in members:
                marks[number].asks[at] = declared == one
                marks[number].meets[at] = not declared or not declared.isdisjoint(one)
    return marks


class PoolExclusion(Struct, frozen=True):
    """Columns of the n devices of a pool; K is at least 1."""

    scopes: Codes
    """(n, K) position among the pool's counter sets, or after them; -1 for none"""
    apart: int
    """Number of scopes after the counter sets: devices that exclude one another without a common set"""
    names: Bits
    """(n, K, W) names; all held devices of the scope need one in common"""
    marks: int
    asks: Bits
    """(n, K, V) marks that the others must meet"""
    meets: Bits
    """(n, K, V) marks that the device meets"""
    mode: GroupMode
    """How compatibility groups are compared"""
    problems: tuple[Problem, ...]

    def equals(self, other: "PoolExclusion") -> bool:
        """Whether the same devices can be held together."""
        return (
            (self.apart, self.marks, self.mode, self.problems)
            == (other.apart, other.marks, other.mode, other.problems)
            and np.array_equal(self.scopes, other.scopes)
            and np.array_equal(self.names, other.names)
            and np.array_equal(self.asks, other.asks)
            and np.array_equal(self.meets, other.meets)
        )


def compile_exclusion(
    pool: PoolID,
    blocks: Sequence[Block],
    counters: PoolCounters,
    vocabulary: Vocabulary,
    rules: Semantics,
    mode: GroupMode,
) -> PoolExclusion | None:
    """The columns of a pool whose slices are `blocks`; None if no device declares anything."""
    if not any(block.exclusive for block in blocks):
        return None
    devices = [device for block in blocks for device in block.source().spec.devices]
    pairs = judged_pairs(blocks, counters, everywhere=rules.exclusion_scope(pool.driver) == "pool")
    stated, problems = evaluate(pool, blocks, devices, pairs, vocabulary)
    conflicts = conflicts_apart(stated, pairs)
    apart = scopes_apart(conflicts, pairs.place)
    scopes = _with_apart(pairs.sets, apart, len(counters.sets))
    size = max(len(counters.sets), int(scopes.max(initial=-1)) + 1)
    on = rules.has(COMPATIBILITY_GROUPS)
    groups = groups_of(devices, scopes, counters)
    in_sets = (scopes >= 0) & (scopes < len(counters.sets))
    marks = [_apart(one, apart, scopes) for one in conflicts]
    marks += [
        Mark(one.by[:, None] & in_sets, np.broadcast_to(one.true[:, None], scopes.shape)) for one in stated
    ]
    if mode == "pairwise" and on:
        marks += group_marks(groups, scopes)
    asks, meets = numbered_by_scope(scopes, size, marks)
    return PoolExclusion(
        scopes=scopes,
        apart=size - len(counters.sets),
        names=group_names(groups, scopes, mode, on=on),
        marks=asks.shape[2] if marks else 0,
        asks=pack_bits(asks),
        meets=pack_bits(meets),
        mode=mode,
        problems=problems,
    )


def _with_apart(sets: Codes, apart: Codes, first: int) -> Codes:
    """(n, K) the counter sets, and in the last column the other scope of a device, if any has one."""
    if sets.shape[1] and (apart < 0).all():
        return sets
    last = np.where(apart >= 0, apart + first, -1).astype(np.int32)
    return np.concatenate([sets, last[:, None]], axis=1)


def _apart(conflict: Conflict, apart: Codes, scopes: Codes) -> Mark:
    """The mark of a conflict; it counts in the last column only."""
    asks, meets = np.zeros(scopes.shape, dtype=np.bool_), np.ones(scopes.shape, dtype=np.bool_)
    asks[:, -1] = conflict.by & (apart >= 0)
    meets[:, -1] = ~conflict.against
    return Mark(asks, meets)
