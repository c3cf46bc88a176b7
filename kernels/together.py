"""Whether several things of a few kinds fit on places together, each by its own rules.

K kinds, N places, R resources. Things are put one after another; each must be allowed where it is put at
that moment. The search is complete within its steps and says so when it gives up.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from kernels.distinct import distinct
from kernels.domains import Counter, Rule
from kernels.matching import Matching, Supply
from kernels.types import Amounts, Codes, Mask


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """Things that are alike."""

    number: int
    """How many there are"""
    allowed: Mask
    """(N,) places that are possible whatever else is put where"""
    wanted: Amounts
    """(R,) what each takes of its place"""
    rules: tuple[Rule, ...] = ()
    adds: tuple[int, ...] = ()
    """Counters in which each counts"""
    needs: tuple[int, ...] = ()
    """The types of its demands on a supply"""


class Outcome(NamedTuple):
    """The result of a search."""

    places: tuple[tuple[int, ...], ...] | None
    """Kind -> the place of each; None if none was found"""
    complete: bool
    """Whether there is none; otherwise the search gave up"""
    steps: int


def fit_together(
    kinds: Sequence[Kind],
    counters: Sequence[Counter],
    free: Amounts,
    among: Mask,
    *,
    steps: int,
    on_step: Callable[[], object] = lambda: None,
    supply: Supply | None = None,
) -> Outcome:
    """Put all things on places.

    free  (R, N) what is left at each place
    among (N,)   places that may be used
    steps        how often the places for a kind may be computed; `on_step` is called each time
    supply       what the demands of the kinds take; None if they have none
    """
    matching = Matching(Supply.none(len(among)) if supply is None else supply)
    search = _Search(kinds, counters, free, among, steps, on_step, matching)
    if search.hopeless():
        return Outcome(None, True, 0)
    try:
        found = search.solve()
    except _GaveUp:
        return Outcome(None, False, search.steps)
    places = tuple(tuple(search.rows[p] for p in of_kind) for of_kind in search.put) if found else None
    return Outcome(places, True, search.steps)


class _GaveUp(Exception):
    """The steps are used up."""


@dataclass(slots=True)
class _Search:
    kinds: Sequence[Kind]
    counters: Sequence[Counter]
    free: Amounts
    among: Mask
    max_steps: int
    on_step: Callable[[], object]
    matching: Matching
    steps: int = 0
    rows: list[int] = field(init=False)
    """Position in the search -> place"""
    put: list[list[int]] = field(init=False)
    left: list[int] = field(init=False)
    _codes: list[Codes] = field(init=False)
    _counts: list[Amounts] = field(init=False)
    _allowed: list[Mask] = field(init=False)
    _ordered: bool = field(init=False)
    """Whether the order matters in which kinds are put"""
    _seen: set[tuple[tuple[int, ...], ...]] = field(default_factory=set)

    def __post_init__(self) -> None:
        rows = np.flatnonzero(self.among)
        self.rows = rows.tolist()
        self.put = [[] for _ in self.kinds]
        self.left = [kind.number for kind in self.kinds]
        self.free = self.free[:, rows]
        self._codes = [counter.codes[rows] for counter in self.counters]
        self._counts = [counter.counts.copy() for counter in self.counters]
        self._allowed = [kind.allowed[rows] for kind in self.kinds]
        self._ordered = any(not rule.tightens for kind in self.kinds for rule in kind.rules)

    def hopeless(self) -> bool:
        """Whether counting shows that there is no solution."""
        possible = [self._places(k, tightening=True) for k in range(len(self.kinds))]
        if any(kind.number and not found.any() for kind, found in zip(self.kinds, possible, strict=True)):
            return True
        every = np.any(possible, axis=0) if possible else np.zeros(0, dtype=np.bool_)
        need = sum(kind.wanted * kind.number for kind in self.kinds)
        if len(self.kinds) and (np.where(self.free > 0, self.free, 0)[:, every].sum(axis=1) < need).any():
            return True
        if any(
            self._most(k, found) < kind.number
            for k, (kind, found) in enumerate(zip(self.kinds, possible, strict=True))
        ):
            return True
        return not self.matching.suffices(
            [
                (kind.needs, kind.number, self._everywhere(found))
                for kind, found in zip(self.kinds, possible, strict=True)
                if kind.needs
            ]
        )

    def _everywhere(self, found: Mask) -> Mask:
        """(N,) places of the search as places of all."""
        places = np.zeros(len(self.among), dtype=np.bool_)
        places[self.rows] = found
        return places

    def _most(self, k: int, possible: Mask) -> int:
        """An upper bound of how many things of one kind alone fit."""
        kind = self.kinds[k]
        each = np.full(int(np.count_nonzero(possible)), kind.number, dtype=np.int64)
        for r in np.flatnonzero(kind.wanted).tolist():
            np.minimum(each, self.free[r, possible] // kind.wanted[r], out=each)
        most = int(each.sum())
        for rule in kind.rules:
            counter = getattr(rule, "counter", None)
            # They exclude each other in one domain.
            if rule.tightens and counter in kind.adds and self.counters[counter].counted is None:
                codes = self._codes[counter][possible]
                most = min(most, len(distinct(codes[codes > 0])) + int(each[codes == 0].sum()))
        return most

    def solve(self) -> bool:
        """Put what is left; return whether that worked."""
        waiting = [k for k, left in enumerate(self.left) if left]
        if not waiting:
            return True
        state = tuple(tuple(sorted(of_kind)) for of_kind in self.put)
        if state in self._seen:
            return False
        self._seen.add(state)
        found = [(k, self._places(k)) for k in waiting]
        found.sort(key=lambda entry: int(np.count_nonzero(entry[1])))
        if not self._ordered:
            found = found[:1]  # every thing must be put, and none becomes possible later
        for k, places in found:
            for place in np.flatnonzero(places).tolist():
                if not self.matching.add(self.kinds[k].needs, self.rows[place]):
                    continue
                self._move(k, place, 1)
                if self.solve():
                    return True
                self._move(k, place, -1)
                self.matching.undo()
        return False

    def _places(self, k: int, *, tightening: bool = False) -> Mask:
        """(n,) where one more thing of a kind may be put now; `tightening` ignores rules that may relax."""
        self.steps += 1
        self.on_step()
        if self.steps > self.max_steps:
            raise _GaveUp
        kind = self.kinds[k]
        found = self._allowed[k].copy()
        for r in np.flatnonzero(kind.wanted).tolist():
            found &= self.free[r] >= kind.wanted[r]
        for rule in kind.rules:
            if rule.tightens or not tightening:
                found &= rule.allows(self._codes, self._counts)
        if kind.needs:
            found &= self.matching.possible(kind.needs)[self.rows]
        return found

    def _move(self, k: int, place: int, sign: int) -> None:
        if sign > 0:
            self.put[k].append(place)
        else:
            self.put[k].pop()
        self.left[k] -= sign
        self.free[:, place] -= sign * self.kinds[k].wanted
        for at in self.kinds[k].adds:
            if self.counters[at].counts_at(self.rows[place]):
                self._counts[at][self._codes[at][place]] += sign
