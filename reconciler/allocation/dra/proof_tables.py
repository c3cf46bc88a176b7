"""The devices of a node in groups that share no counter set, and what each group can give.

Mostly a group is one GPU with its partitions. What a group can give depends on its state alone, so it is
listed once for all groups, nodes and decisions that meet the state.
"""

from collections import OrderedDict
from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from kernels.boxes import Box, handed_out, packings
from kernels.types import Amounts, Codes, Rows
from reconciler.allocation.dra.state import layout_of
from reconciler.state.caches import Cache
from reconciler.state.devices.snapshot import View

MOST_STATES = 1 << 14
"""States that are looked at for the packings of one group. With more, its devices count as if all fit."""
MOST_CELLS = 1 << 17
"""Cells of the box of one group. With more, counts are tried in parts; with eight times as many, its kinds
count as if they did not compete."""


class Groups(Struct, frozen=True):
    """The n devices of a view in G groups."""

    order: Rows
    """(n,) positions in the view, group by group"""
    begins: Rows
    """(G + 1,) where each group begins in `order`"""
    of: Rows
    """(n,) the group of each device"""
    sets: tuple[Rows, ...]
    """Of each group: the counter sets that no other group draws from"""
    draws: tuple[tuple[tuple[int, ...], ...], ...]
    """Of each group and device: what it draws from the counters of those sets"""
    shapes: tuple[int, ...]
    """Of each group: a number that groups of equal draws share"""
    shared: Rows
    """The sets that several groups draw from"""


def _groups(view: View) -> Groups:
    layout, table = layout_of(view), view.fleet.table
    sets, draws = layout.sets, layout.draws
    count, size = len(sets), len(layout.used)
    own = size + np.arange(count)
    if size:  # the set with the fewest devices; a set of the whole node has many
        users = np.bincount(sets[sets >= 0], minlength=size)
        smallest = np.where(sets >= 0, users[sets], count + 1).argmin(axis=1)
        chosen = sets[np.arange(count), smallest]
        own = np.where(chosen >= 0, chosen, own)
    _, of = np.unique(own, return_inverse=True)
    of = of.reshape(-1)
    order = np.argsort(of, kind="stable")
    begins = np.searchsorted(of[order], np.arange(int(of.max(initial=-1)) + 2))
    low, high = np.full(size, count), np.full(size, -1)
    at, k = np.nonzero(sets >= 0)
    np.minimum.at(low, sets[at, k], of[at])
    np.maximum.at(high, sets[at, k], of[at])
    mine = [list[int]() for _ in begins[1:]]
    for number in np.flatnonzero(low == high).tolist():
        mine[low[number]].append(number)
    most, width = max(map(len, mine), default=0), table.shape[1]
    own_sets = np.full((len(mine), most), -2)
    for number, local in enumerate(mine):
        own_sets[number, : len(local)] = local
    drawn = np.zeros((count, most, width), dtype=np.int64)
    for column in range(sets.shape[1] if most else 0):
        is_own = sets[:, column, None] == own_sets[of]
        drawn += np.where(is_own[..., None], table[draws[:, column], None], 0)
    drawn = drawn.reshape(count, most * width)[order]
    known: dict[object, tuple[int, tuple[tuple[int, ...], ...]]] = {}
    of_group = []
    for number, local in enumerate(mine):
        rows = drawn[begins[number] : begins[number + 1], : len(local) * width]
        key = rows.tobytes(), rows.shape
        if key not in known:
            known[key] = len(known), tuple(map(tuple, rows.tolist()))
        of_group.append(known[key])
    return Groups(
        order=order,
        begins=begins,
        of=of,
        sets=tuple([np.array(local, dtype=np.intp) for local in mine]),
        draws=tuple([draws for _, draws in of_group]),
        shapes=tuple([shape for shape, _ in of_group]),
        shared=np.flatnonzero(low < high),
    )


groups_of = Cache(_groups).of
"""The groups of a view"""


class Packings:
    """The largest packings of groups by their state. Bounded; the oldest go first."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._known: OrderedDict[object, list[tuple[int, ...]]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def of(
        self, left: Sequence[int], draws: tuple[tuple[int, ...], ...], classes: tuple[int, ...]
    ) -> list[tuple[int, ...]]:
        """See `kernels.boxes.packings`. If there are too many, one that is not below any of them."""
        key = tuple(left), draws, classes
        found = self._known.get(key)
        if found is None:
            found = packings(left, draws, classes, limit=MOST_STATES)
            if found is None:
                found = [tuple(np.bincount(classes).tolist())]
            self._known[key] = found
            if len(self._known) > self.limit:
                self._known.popitem(last=False)
        else:
            self._known.move_to_end(key)
        return found


PACKINGS = Packings(1 << 12)
"""Those of this process. A GPU with seven slices can leave some thousand states"""


class Rule(NamedTuple):
    """A constraint as a limit on what kinds take."""

    match: bool
    """One group may serve the kinds; otherwise one device of each value may"""
    bits: int
    """The kinds"""
    codes: Codes
    """(n,) values of the devices"""
    inner: bool
    """Whether a group has several values"""
    shared: bool
    """Whether several groups have the same value, so that it limits them together"""


class GroupState(Struct, frozen=True):
    """The devices of a group that are left, by what they serve, and which of them fit together."""

    number: int
    """Equal states have equal numbers"""
    classes: tuple[tuple[int, tuple[int, ...]], ...]
    """Of each class of devices: the kinds it serves, one bit each, and its values for the rules"""
    packed: tuple[tuple[int, ...], ...]
    """The largest counts of each class that fit together"""

    def bound(self, weights: Amounts) -> Amounts:
        """(W,) the most that a packing is worth, at most.

        weights (K, W)  not negative
        """
        best = [weights[_bits_of(kinds)].max(axis=0) for kinds, _ in self.classes]
        most: Amounts = (np.array(self.packed) @ np.stack(best)).max(axis=0)
        return most


def group_state(
    number: int,
    left: Sequence[int],
    draws: tuple[tuple[int, ...], ...],
    bits: Sequence[int],
    codes: Sequence[tuple[int, ...]],
) -> GroupState:
    """The state of a group of m devices.

    left          (C,)    what remains of its counters
    draws         (m, C)  of its devices
    bits          (m,)    the kinds that each device serves, one bit each
    codes         (m, r)  the value of each device for each rule; -1 where the group has one
    """
    classes = sorted({(kinds, values) for kinds, values in zip(bits, codes, strict=True) if kinds})
    place = {one: at for at, one in enumerate(classes)}
    chosen = [at for at, kinds in enumerate(bits) if kinds]
    of = tuple([place[bits[at], codes[at]] for at in chosen])
    packed = PACKINGS.of(left, tuple([draws[at] for at in chosen]), of)
    return GroupState(number, tuple(classes), tuple(packed))


def table_of(
    state: GroupState, rules: Sequence[Rule], caps: Sequence[int], *, whole: bool
) -> tuple[Amounts, Amounts, tuple[tuple[int, int], ...], int] | None:
    """The largest counts of kinds that a group can give, how they use the limits, the limits, and the cells
    of the box in which they were found.

    Counts above `caps` (K,) do not matter. If there are too many: None, or if `whole` a count that is not
    below any of them, found in no cell.
    """
    most = [0] * len(caps)
    for largest, (kinds, _) in zip(map(max, zip(*state.packed, strict=True)), state.classes, strict=True):
        for kind in _bits_of(kinds):
            most[kind] = min(caps[kind], most[kind] + largest)
    limits = tuple(
        sorted(
            {
                (at, values[at])
                for kinds, values in state.classes
                for at, rule in enumerate(rules)
                if kinds & rule.bits
            }
        )
    )
    sizes = [*most, *[1] * len(limits)]
    cells = prod([size + 1 for size in sizes])
    if cells > MOST_CELLS and not whole:
        return None
    if cells > MOST_CELLS * 8:
        return np.array([most]), np.zeros((1, len(limits)), dtype=np.int64), limits, 0
    box = Box(sizes)
    place = {limit: len(caps) + at for at, limit in enumerate(limits)}
    serves = []
    for kinds, values in state.classes:
        steps = []
        for kind in _bits_of(kinds):
            change, only_zero = [0] * len(sizes), []
            change[kind] = 1
            for at, rule in enumerate(rules):
                if rule.bits >> kind & 1:
                    if rule.match:
                        only_zero.append(place[at, values[at]])
                    else:
                        change[place[at, values[at]]] = -1
            if most[kind]:
                steps.append(box.step(change, only_zero=only_zero))
        serves.append(steps)
    start = box.below([0] * len(caps) + [1] * len(limits))
    vectors = box.vectors(box.largest(handed_out(state.packed, serves, start)))
    return vectors[:, : len(caps)], 1 - vectors[:, len(caps) :], limits, box.size


def _bits_of(bits: int) -> list[int]:
    return [at for at in range(bits.bit_length()) if bits >> at & 1]
