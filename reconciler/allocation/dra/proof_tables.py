"""What a proof counts: the requests that come next, by kind, and the devices of a node in groups that
share no counter set.
"""

from collections import OrderedDict
from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from kernels.boxes import Box, handed_out, packings
from kernels.groups import distinct
from kernels.types import Amounts, Codes, Mask, Rows
from reconciler.allocation.dra.candidates import Candidates
from reconciler.allocation.dra.constraints import Constraint, Tokens
from reconciler.allocation.dra.request_options import MAX_RESULTS, RequestOption, Slot
from reconciler.allocation.dra.state import NodeProblem, State, layout_of
from reconciler.state.caches import Cache
from reconciler.state.devices.snapshot import View

MOST_VECTORS = 1 << 15
"""Counts that the alternatives may ask for. With more, nothing is proved."""

Alternatives = Sequence[tuple[Candidates, Mask]]
"""Of one request: each with the (n,) devices that it could take"""
RuleKey = tuple[int, int]
"""A constraint: its claim, and its number in the claim"""


class Asked(NamedTuple):
    """What the next requests ask for: counts of K kinds of n devices."""

    masks: Mask
    """(K, n) devices of each kind"""
    rules: list[tuple[RuleKey, ...]]
    """Of each kind: the constraints"""
    options: list[RequestOption]
    """Of each kind: one of them"""
    claims: list[int]
    """Of each kind: its claim, if that could get too many devices; else -1"""
    wanted: Amounts
    """(v, K) the counts, one row for each choice of alternatives; none if there are too many"""
    complete: bool
    """Whether no request and no constraint was left out"""
    before: dict[RuleKey, Tokens | None]
    """Of each constraint: the values of what is chosen"""


class _Alternative(NamedTuple):
    option: RequestOption
    wanted: int
    mask: Mask
    rules: list[RuleKey]


class Reader:
    """Reads the next requests in one state."""

    def __init__(self, problem: NodeProblem, claim: int, state: State) -> None:
        """`claim` is the claim at hand, for which the state knows constraints."""
        self._problem, self._claim, self._state = problem, claim, state
        sharing = problem.shared | problem.snapshot.occupancy.sharing[problem.rows]
        self._sharing = sharing if sharing.any() else None
        self._before: dict[RuleKey, Tokens | None] = {}
        self._complete = True
        """Whether no request and no constraint was left out"""

    def read(self, slots: Sequence[Slot], by_slot: Sequence[Alternatives]) -> Asked | None:
        """What requests ask for; None if one of them cannot be met, whatever the others get."""
        requests: list[tuple[int, list[_Alternative]]] = []
        for slot, alternatives in zip(slots, by_slot, strict=True):
            if all(self._counts(candidates, mask) for candidates, mask in alternatives):
                read = [self._alternative(slot.claim, candidates, mask) for candidates, mask in alternatives]
                found = [one for one in read if self._enough(*one)]
                if not found:
                    return None
                requests.append((slot.claim, found))
            else:
                self._complete = False
        self._drop_rules_without_effect([found for _, found in requests])
        return self._asked(requests)

    def _counts(self, candidates: Candidates, mask: Mask) -> bool:
        """Whether an alternative takes a number of devices, each for itself."""
        if candidates.listed is not None or candidates.option.admin:
            return False
        return self._sharing is None or not (mask & self._sharing).any()

    def _alternative(self, claim: int, candidates: Candidates, mask: Mask) -> _Alternative:
        rules, option = [], candidates.option
        for number in option.constraints:
            constraint, chosen = self._problem.constraints[claim][number], None
            if claim == self._claim:
                chosen = self._state.constraints[number]
            else:
                mask = mask & constraint.allowed(None, option)
            if constraint.match and not constraint.alone:
                if constraint.plain and chosen is not None:
                    continue  # the mask has that value only
                self._before[claim, number] = chosen
                rules.append((claim, number))
            elif not constraint.match and constraint.plain and not constraint.derived:
                self._before[claim, number] = None
                rules.append((claim, number))
            else:
                self._complete = False
        return _Alternative(option, candidates.count, mask, rules)

    def _enough(self, option: RequestOption, count: int, mask: Mask, rules: Sequence[RuleKey]) -> bool:
        """Whether there are devices enough for one alternative alone."""
        have = int(np.count_nonzero(mask))
        if have < count or count == 1:
            return have >= count
        plain = [c for claim, number in rules if (c := self._problem.constraints[claim][number]).plain]
        differing = [c.codes[mask] for c in plain if not c.match]
        if any(np.count_nonzero(np.bincount(codes)) < count for codes in differing):
            return False
        for constraint in plain:
            if constraint.match:
                codes = constraint.of(option)[mask]
                if np.bincount(codes).max() < count:
                    return False
                for others in differing:  # of one value, devices that differ in another attribute
                    pairs = distinct(codes.astype(np.int64) << 32 | others)
                    if np.bincount(pairs >> 32).max() < count:
                        return False
        return True

    def _drop_rules_without_effect(self, requests: Sequence[Sequence[_Alternative]]) -> None:
        """Constraints on one device at most, or on devices that all differ."""
        for key in list(self._before):
            under = [[one for one in found if key in one.rules] for found in requests]
            masks = [one.mask for found in under for one in found]
            constraint = self._problem.constraints[key[0]][key[1]]
            if sum([max([one.wanted for one in found], default=0) for found in under]) < 2 or (
                not constraint.match
                and np.bincount(constraint.codes[np.any(masks, axis=0)]).max(initial=0) < 2
            ):
                del self._before[key]

    def _asked(self, requests: list[tuple[int, list[_Alternative]]]) -> Asked:
        most = {self._claim: self._state.results}
        for claim, found in requests:
            most[claim] = most.get(claim, 0) + max([one.wanted for one in found])
        numbers: dict[tuple[bytes, tuple[RuleKey, ...], int, tuple[int, ...]], int] = {}
        masks, options = list[Mask](), list[RequestOption]()
        sums = {0}  # vectors of counts, 16 bits for each kind
        for claim, found in reversed(requests):  # so kinds of later requests keep their numbers
            choices = set()
            for option, count, mask, rules in found:
                mine = tuple([rule for rule in rules if rule in self._before])
                seen = tuple([id(self._problem.constraints[at][number].of(option)) for at, number in mine])
                key = mask.tobytes(), mine, claim if most[claim] > MAX_RESULTS else -1, seen
                if key not in numbers:
                    numbers[key] = len(masks)
                    masks.append(mask)
                    options.append(option)
                choices.add(count << 16 * numbers[key])
            sums = {one + choice for one in sums for choice in choices}
            if len(sums) > MOST_VECTORS:
                sums = set()
        packed = b"".join([one.to_bytes(2 * len(masks), "little") for one in sums])
        return Asked(
            masks=np.array(masks, dtype=np.bool_),
            rules=[rules for _, rules, _, _ in numbers],
            options=options,
            claims=[claim for _, _, claim, _ in numbers],
            wanted=np.frombuffer(packed, dtype="<u2").reshape(len(sums), len(masks)).astype(np.int64),
            complete=self._complete,
            before=self._before,
        )


def kinds_by_value(
    constraint: Constraint, asked: Asked, kinds: Sequence[int], values: Tokens | None
) -> list[Amounts]:
    """For each value that devices may share, (n,) the kinds that each device may still serve, one bit each.

    kinds   those that have to share a value
    values  those that are left; None for all
    """
    columns = [constraint.of(asked.options[kind]) for kind in kinds]
    used = [column[asked.masks[kind]] for kind, column in zip(kinds, columns, strict=True)]
    tokens = {code: constraint.tokens[code] for code in distinct(np.concatenate(used)).tolist()}
    if values is None:
        values = frozenset().union(*tokens.values())
    ways, by_column = [], dict[int, tuple[Codes, int]]()
    for kind, column in zip(kinds, columns, strict=True):  # mostly the same for all kinds
        _, served = by_column.get(id(column), (column, 0))
        by_column[id(column)] = column, served | 1 << kind
    for codes in sorted(
        {tuple([code for code, mine in tokens.items() if value in mine]) for value in values}
    ):
        bits = np.full(len(constraint.codes), -1, dtype=np.int64)
        for column, served in by_column.values():
            bits &= np.where(np.logical_or.reduce([column == code for code in codes]), -1, ~served)
        ways.append(bits)
    return ways


MOST_STATES = 1 << 14
"""States that are looked at for the packings of one group. With more, its devices count as if all fit."""
MOST_CELLS = 1 << 20
"""Cells of the box of one group. With more, its kinds count as if they did not compete."""


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
    most: tuple[tuple[int, int], ...]
    """The kinds that it serves, and how many devices of each it can give at most"""

    def bound(self, weights: Amounts) -> Amounts:
        """(W,) the most that a packing is worth, at most.

        weights (K, W)  not negative
        """
        best = np.array([np.maximum.reduce(weights[_bits_of(kinds)]) for kinds, _ in self.classes])
        most: Amounts = np.maximum.reduce(np.array(self.packed) @ best)
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
    most: dict[int, int] = {}
    for largest, (kinds, _) in zip(map(max, zip(*packed, strict=True)), classes, strict=True):
        for kind in _bits_of(kinds):
            most[kind] = most.get(kind, 0) + largest
    return GroupState(number, tuple(classes), tuple(packed), tuple(sorted(most.items())))


def table_of(
    state: GroupState, rules: Sequence[Rule], caps: Sequence[int]
) -> tuple[Amounts, Amounts, tuple[tuple[int, int], ...], int]:
    """The largest counts of kinds that a group can give, how they use the limits, the limits, and the cells
    of the box in which they were found.

    Counts above `caps`, of each kind in `state.most`, do not matter. If there are too many: a count that is
    not below any of them, found in no cell.
    """
    kinds = [kind for kind, _ in state.most]
    limits = tuple(
        sorted(
            {
                (at, values[at])
                for served, values in state.classes
                for at, rule in enumerate(rules)
                if served & rule.bits
            }
        )
    )
    sizes = [*caps, *[1] * len(limits)]
    cells = prod([size + 1 for size in sizes])
    if cells > MOST_CELLS:
        return _spread(np.array([caps]), kinds), np.zeros((1, len(limits)), dtype=np.int64), limits, 0
    box = Box(sizes)
    place = {limit: len(kinds) + at for at, limit in enumerate(limits)}
    serves = []
    for served, values in state.classes:
        steps = []
        for at_kind in [at for at, kind in enumerate(kinds) if served >> kind & 1 and caps[at]]:
            change, only_zero = [0] * len(sizes), []
            change[at_kind] = 1
            for at, rule in enumerate(rules):
                if rule.bits >> kinds[at_kind] & 1:
                    if rule.match:
                        only_zero.append(place[at, values[at]])
                    else:
                        change[place[at, values[at]]] = -1
            steps.append(box.step(change, only_zero=only_zero))
        serves.append(steps)
    start = box.below([0] * len(kinds) + [1] * len(limits))
    vectors = box.vectors(box.largest(handed_out(state.packed, serves, start)))
    return _spread(vectors[:, : len(kinds)], kinds), 1 - vectors[:, len(kinds) :], limits, box.size


def _spread(counts: Amounts, kinds: Sequence[int]) -> Amounts:
    """Counts of some kinds (v, k) as columns of all kinds up to the last of them."""
    spread = np.zeros((len(counts), max(kinds, default=-1) + 1), dtype=np.int64)
    spread[:, kinds] = counts
    return spread


def _bits_of(bits: int) -> list[int]:
    return [at for at in range(bits.bit_length()) if bits >> at & 1]
