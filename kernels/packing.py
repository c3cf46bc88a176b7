"""The most that can be had at once from what is left of some counters."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kernels.types import Amounts, Codes, Rows

Ints = tuple[int, ...]


class Packed(NamedTuple):
    """What a search found. Where `best` is `bound` it is the answer."""

    best: int
    """Some choice is worth that much"""
    bound: int
    """None is worth more"""
    steps: int


def most(draws: Amounts, copies: Sequence[int], worth: Sequence[int], left: Amounts, budget: int) -> Packed:
    """The most that a choice of things is worth of which all draws together fit.

    Branch and bound: the bound is that of each counter alone, with the last thing cut to fit. A state that
    was reached with as much worth before is not looked at again.

    draws  (T, C)  what one of each kind of thing draws, none negative
    copies (T,)    how many there are of each kind
    worth  (T,)    of one of each kind, none negative
    left   (C,)    what is left; where it is negative nothing can be taken that draws there
    budget         choices that are looked at, at most
    """
    rests = left.tolist()
    kinds = [
        (drawn, number, value)
        for drawn, number, value in zip(draws.tolist(), copies, worth, strict=True)
        if number > 0 and value > 0 and all(not d or d <= rest for d, rest in zip(drawn, rests, strict=True))
    ]
    # A counter with room for everything at once decides nothing.
    wanted = [sum(drawn[c] * number for drawn, number, _ in kinds) for c in range(len(rests))]
    narrow = [c for c, rest in enumerate(rests) if wanted[c] > max(rest, 0)]
    room = tuple([rests[c] for c in narrow])
    merged: dict[tuple[Ints, int], int] = {}
    for drawn, number, value in kinds:
        key = (tuple([drawn[c] for c in narrow]), value)
        merged[key] = merged.get(key, 0) + number
    # What takes the smallest part of a counter for its worth first: most often that is the answer.
    order = sorted(merged.items(), key=lambda kind: (_part(kind[0][0], room) / kind[0][1], -kind[0][1]))
    return _Search([k[0] for k, _ in order], [n for _, n in order], [k[1] for k, _ in order]).run(
        room, budget
    )


def _part(drawn: Ints, room: Ints) -> float:
    return max((d / rest for d, rest in zip(drawn, room, strict=True) if rest > 0), default=0.0)


class _Search:
    """Kinds of things in the order in which they are decided."""

    def __init__(self, draws: list[Ints], copies: list[int], worth: list[int]) -> None:
        self._draws = draws
        self._copies = copies
        self._worth = worth
        width = len(draws[0]) if draws else 0
        # For each counter, the kinds that are worth most for what they draw of it come first.
        self._orders = [
            sorted(range(len(draws)), key=lambda t, c=c: draws[t][c] / worth[t])  # type: ignore[misc]
            for c in range(width)
        ]

    def run(self, room: Ints, budget: int) -> Packed:
        """Look at choices, from the greedy one on, until none can be better or so many were looked at."""
        top = self._bound(0, room)
        best = steps = 0
        seen: dict[tuple[int, Ints], int] = {}
        # Kind, what is left for it and those behind it, worth so far, how many of it are to be taken.
        pending = [(0, room, 0, self._at_once(0, room))] if self._draws else []
        while pending and best < top:
            if steps == budget:
                return Packed(best, top, steps)
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
                pending.append((kind, rest, value, self._at_once(kind, rest)))
        return Packed(best, best, steps)

    def _at_once(self, kind: int, rest: Ints) -> int:
        """How many of one kind can be taken."""
        room = [r // d for r, d in zip(rest, self._draws[kind], strict=True) if d]
        return max(0, min([self._copies[kind], *room]))

    def _bound(self, first: int, rest: Ints) -> int:
        """No choice among the kinds from `first` on is worth more."""
        numbers = [0] * first + [self._at_once(kind, rest) for kind in range(first, len(self._draws))]
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
    """The first place of every distinct row, and for each row which of those it equals.

    table (n, m)
    ->    (u,) positions; (n,) codes below u
    """
    if not table.shape[1]:
        return np.zeros(min(1, len(table)), dtype=np.intp), np.zeros(len(table), dtype=np.intp)
    packed = np.ascontiguousarray(table).view(np.dtype((np.void, table.dtype.itemsize * table.shape[1])))
    _, first, codes = np.unique(packed.reshape(-1), return_index=True, return_inverse=True)
    return first, codes.reshape(-1)
