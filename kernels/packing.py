"""The most that can be packed into free amounts."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kernels.types import Amounts, Codes, Rows

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
