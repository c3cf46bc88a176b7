"""Bounds on what fits, on who would have to leave, and on what can be packed into free amounts. Sound, not
tight.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernels.types import Amounts, Codes, Mask, Rows

UNLIMITED = 2**31
"""What limits nothing; sums over all places stay exact"""


def per_domain(each: Amounts, codes: Codes, size: int) -> Amounts:
    """(G,) the sum over the places of each domain.

    each (N,)  at most 2**53 in total
    size       G
    """
    inside = codes >= 0
    return np.bincount(codes[inside], weights=each[inside], minlength=size).astype(np.int64)


def apart(each: Amounts, codes: Codes, groups: Codes) -> Amounts:
    """What remains of `each` if things of one group exclude each other: one in the first place of a group.

    each   (N,)
    codes  (N,)  domains
    groups (N,)  0 for places in no group
    ->     (N,)  a group that reaches into two domains counts in both
    """
    found = each.copy()
    at = np.flatnonzero((groups > 0) & (each > 0) & (codes >= 0))
    pairs = codes[at].astype(np.int64) * (int(groups.max(initial=0)) + 1) + groups[at]
    _, first = np.unique(pairs, return_index=True)
    found[at] = 0
    found[at[first]] = 1
    return found


def most_with(supply: Amounts, needs: Amounts) -> Amounts:
    """(G,) the most things that a supply suffices for, the modest first.

    supply (G,)
    needs  (M,)  of each thing, not negative
    """
    enough: Amounts = np.searchsorted(np.cumsum(np.sort(needs)), supply, side="right").astype(np.int64)
    return enough


def devices_of_sets(left: Amounts, least: Amounts, devices: Amounts) -> Amounts:
    """(S,) the most devices of each set that its counters suffice for.

    left    (S, C)  may be negative
    least   (S, C)  the least that a device draws
    devices (S,)    devices that draw from the set
    """
    drawn = np.where(least > 0, least, 1)
    times = np.where(least > 0, np.maximum(left, 0) // drawn, UNLIMITED)
    return np.minimum(times.min(axis=1, initial=UNLIMITED), devices)


def room_for(free: Amounts, wanted: Amounts, among: Mask) -> Amounts:
    """(N,) how many things with these wants each place has room for; 0 outside `among`.

    free   (R, N)  may be negative
    wanted (R,)
    """
    each = np.full(free.shape[1], UNLIMITED, dtype=np.int64)
    for r in np.flatnonzero(wanted).tolist():
        np.minimum(each, np.maximum(free[r], 0) // wanted[r], out=each)
    return np.where(among, each, 0)


Weights = NDArray[np.float64]


def freed_draws(sets: Codes, draws: Codes, table: Amounts, units: Rows) -> tuple[Rows, Rows, Amounts]:
    """What each unit returns to each counter set when it leaves, as pairs in the order of sets, then units.

    sets  (H, K)  sets that each held device draws from, -1 for none
    draws (H, K)  row of `table` for each of those sets
    table (P, C)  distinct draws
    units (H,)    the unit that holds the device
    ->    (Q,) set, (Q,) unit, (Q, C) amounts
    """
    at, k = np.nonzero(sets >= 0)
    of_set, of_unit = sets[at, k].astype(np.intp), units[at]
    span = int(of_unit.max(initial=-1)) + 1
    pairs, place = np.unique(of_set * max(span, 1) + of_unit, return_inverse=True)
    amounts = np.zeros((len(pairs), table.shape[1]), dtype=np.int64)
    np.add.at(amounts, place, table[draws[at, k]])
    return pairs // max(span, 1), pairs % max(span, 1), amounts


def forced(
    most: Amounts, table: Amounts, sets: Codes, draws: Codes, freed: tuple[Rows, Rows, Amounts]
) -> tuple[Rows, Rows]:
    """Units without whose leaving a device does not fit in its counter sets, whoever else leaves.

    most  (S, C)  what is left of the counter sets when all units have left
    table (P, C)  distinct draws
    sets  (n, K)  sets that each device draws from, -1 for none
    draws (n, K)  row of `table` for each of those sets
    freed         see `freed_draws`
    ->    (m,) device, (m,) unit: pairs, which may repeat if a device draws from several sets
    """
    of_set, of_unit, amounts = freed
    first = np.searchsorted(of_set, np.arange(len(most) + 1))
    at, k = np.nonzero(sets >= 0)
    numbers = sets[at, k].astype(np.intp)
    counts = first[numbers + 1] - first[numbers]
    entry = np.repeat(np.arange(len(at)), counts)
    offset = np.arange(len(entry)) - np.repeat(np.cumsum(counts) - counts, counts)
    pair = first[numbers[entry]] + offset
    wanted = table[draws[at[entry], k[entry]]]
    short = (wanted > 0) & (most[numbers[entry]] - amounts[pair] < wanted)
    needed = short.any(axis=1)
    return at[entry[needed]], of_unit[pair[needed]]


def nth_of_group(groups: Rows, values: Weights, n: int, size: int) -> Weights:
    """The n-th smallest value of each group.

    groups (m,)    below `size`
    values (m,)
    n              from 1
    ->     (size,) infinite for groups with fewer values
    """
    found = np.full(size, np.inf)
    enough, smallest = _smallest_of_group(groups, values, n, size)
    found[enough] = smallest[:, -1]
    return found


def sums_of_group(groups: Rows, values: Weights, n: int, size: int) -> Weights:
    """The sum of the n smallest values of each group. Takes and returns what `nth_of_group` does."""
    found = np.full(size, np.inf)
    enough, smallest = _smallest_of_group(groups, values, n, size)
    found[enough] = smallest.sum(axis=1)
    return found


def _smallest_of_group(groups: Rows, values: Weights, n: int, size: int) -> tuple[Rows, Weights]:
    """(k,) the groups with n values or more, and (k, n) their smallest ones, rising: never more than m."""
    order = np.lexsort((values, groups))
    start = np.searchsorted(groups[order], np.arange(size + 1))
    enough = np.flatnonzero(start[1:] - start[:-1] >= n)
    if not len(enough):  # n comes from users and may be any number
        return enough, np.empty((0, 1))
    return enough, values[order[start[enough, None] + np.arange(n)]]


def whole(values: Weights) -> Weights:
    """Whole numbers that are not above the true values, which are computed with a small error."""
    return np.ceil(values - 0.01)


Ints = tuple[int, ...]


class WorthBounds(NamedTuple):
    """The result of a search. Exact where `best == bound`."""

    best: int
    """Worth of the best choice found"""
    bound: int
    """No choice is worth more"""
    steps: int
    """Choices examined"""


def max_worth(
    draws: Amounts, copies: Sequence[int], worth: Sequence[int], free: Amounts, budget: int
) -> WorthBounds:
    """The highest worth of a choice of items whose draws fit together.

    Branch and bound. The bound solves each counter alone and allows a fraction of the last item. A state
    that was reached before with at least the same worth is skipped.

    draws  (T, C)  draw of one item of each kind, not negative
    copies (T,)    number of items of each kind
    worth  (T,)    worth of one item of each kind, not negative
    free   (C,)    free amounts; where negative, no item may draw
    budget         maximum number of choices to examine
    """
    rests = free.tolist()
    kinds = [
        (drawn, number, value)
        for drawn, number, value in zip(draws.tolist(), copies, worth, strict=True)
        if number > 0 and value > 0 and all(not d or d <= rest for d, rest in zip(drawn, rests, strict=True))
    ]
    # A counter with room for all items at once limits nothing.
    wanted = [sum(drawn[c] * number for drawn, number, _ in kinds) for c in range(len(rests))]
    narrow = [c for c, rest in enumerate(rests) if wanted[c] > max(rest, 0)]
    room = tuple([rests[c] for c in narrow])
    merged: dict[tuple[Ints, int], int] = {}
    for drawn, number, value in kinds:
        key = (tuple([drawn[c] for c in narrow]), value)
        merged[key] = merged.get(key, 0) + number
    # Items with the smallest share of a counter per worth come first: this order most often solves it.
    order = sorted(merged.items(), key=lambda kind: (_share(kind[0][0], room) / kind[0][1], -kind[0][1]))
    return _Search([k[0] for k, _ in order], [n for _, n in order], [k[1] for k, _ in order]).run(
        room, budget
    )


def _share(drawn: Ints, room: Ints) -> float:
    return max((d / rest for d, rest in zip(drawn, room, strict=True) if rest > 0), default=0.0)


class _Search:
    """A search over kinds of items, decided in the given order."""

    def __init__(self, draws: list[Ints], copies: list[int], worth: list[int]) -> None:
        self._draws = draws
        self._copies = copies
        self._worth = worth
        width = len(draws[0]) if draws else 0
        # For each counter: kinds by draw per worth, the lowest first.
        self._orders = [
            sorted(range(len(draws)), key=lambda t, c=c: draws[t][c] / worth[t])  # type: ignore[misc]
            for c in range(width)
        ]

    def run(self, room: Ints, budget: int) -> WorthBounds:
        """Examine choices, the greedy one first, until none can be better or the budget is spent."""
        top = self._bound(0, room)
        best = steps = 0
        seen: dict[tuple[int, Ints], int] = {}
        # Kind, free amounts for it and the later kinds, worth so far, number of items to take of it.
        pending = [(0, room, 0, self._max_items(0, room))] if self._draws else []
        while pending and best < top:
            if steps == budget:
                return WorthBounds(best, top, steps)
            steps += 1
            kind, rest, value, number = pending.pop()
            if number:
                pending.append((kind, rest, value, number - 1))
            drawn = self._draws[kind]
            rest = tuple([r - number * d for r, d in zip(rest, drawn, strict=True)])
            value += number * self._worth[kind]
            best = max(best, value)
            kind += 1
            if kind == len(self._draws) or value <= seen.get((kind, rest), -1):
                continue
            if value + self._bound(kind, rest) > best:
                seen[kind, rest] = value
                pending.append((kind, rest, value, self._max_items(kind, rest)))
        return WorthBounds(best, best, steps)

    def _max_items(self, kind: int, rest: Ints) -> int:
        """How many items of one kind fit."""
        room = [r // d for r, d in zip(rest, self._draws[kind], strict=True) if d]
        return max(0, min([self._copies[kind], *room]))

    def _bound(self, first: int, rest: Ints) -> int:
        """Upper bound on the worth of any choice among the kinds from `first` on."""
        numbers = [0] * first + [self._max_items(kind, rest) for kind in range(first, len(self._draws))]
        lowest = sum(n * w for n, w in zip(numbers, self._worth, strict=True))
        for c, order in enumerate(self._orders):
            room, value = rest[c], 0
            for kind in order:
                number, drawn = numbers[kind], self._draws[kind][c]
                if number * drawn > room:
                    value += self._worth[kind] * room // drawn
                    break
                value += number * self._worth[kind]
                room -= number * drawn
            lowest = min(lowest, value)
        return lowest


def unique_rows(table: Amounts | Codes) -> tuple[Rows, Rows]:
    """The first position of every distinct row, and for each row its code.

    table (n, m)
    ->    (u,) positions; (n,) codes below u, indices into the positions
    """
    if not table.shape[1]:
        return np.zeros(min(1, len(table)), dtype=np.intp), np.zeros(len(table), dtype=np.intp)
    packed = np.ascontiguousarray(table).view(np.dtype((np.void, table.dtype.itemsize * table.shape[1])))
    _, first, codes = np.unique(packed.reshape(-1), return_index=True, return_inverse=True)
    return first, codes.reshape(-1)
