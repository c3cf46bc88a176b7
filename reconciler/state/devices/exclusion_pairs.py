"""The `compatibleOnlyWith` expressions of a pool and the pairs that they judge. Source: GRP-10, GRP-11."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from kernels.types import Codes, Mask
from reconciler.api.objects.meta import DeviceID, PoolID
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
