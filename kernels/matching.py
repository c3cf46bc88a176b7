"""Whether several things fit together: each gets a thing or a place of its own.

`Matching` assigns demands to supplies; `fit_together` puts things of a few kinds on places, each kind by its
own rules.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from kernels.domains import Counter, Rule
from kernels.groups import distinct
from kernels.types import Amounts, Codes, Mask, Rows


@dataclass(frozen=True, slots=True, eq=False)
class Supply:
    """Things that demands take."""

    suits: Mask
    """(T, V) the things that can meet a demand of each type"""
    things: Rows
    """(E,) a thing"""
    places: Rows
    """(E,) and a place where it can be used"""
    spared: Mask
    """(T, N) places where a demand needs no thing"""
    joint: tuple[bool, ...]
    """Whether all demands of a type are one demand: one thing that can be used at all of their places"""

    @staticmethod
    def none(size: int) -> "Supply":
        """No types; `size` is N."""
        nothing: Rows = np.zeros(0, dtype=np.intp)
        return Supply(
            np.zeros((0, 0), dtype=np.bool_), nothing, nothing, np.zeros((0, size), dtype=np.bool_), ()
        )

    def at(self, places: Mask) -> Mask:
        """(V,) the things that can be used at one of these places.

        places (N,)
        """
        found = np.zeros(self.suits.shape[1], dtype=np.bool_)
        found[self.things[places[self.places]]] = True
        return found

    def where(self, things: Mask) -> Mask:
        """(N,) the places where one of these things can be used.

        things (V,)
        """
        found = np.zeros(self.spared.shape[1], dtype=np.bool_)
        found[self.places[things[self.things]]] = True
        return found

    def each(self, kind: int) -> Amounts:
        """(N,) how many things of each place suit a type."""
        suiting = self.suits[kind][self.things]
        return np.bincount(self.places[suiting], minlength=self.spared.shape[1]).astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class _Demand:
    kind: int
    usable: Mask
    """(V,) the things that suit it and can be used at all its places"""
    needs: bool
    """Whether it is somewhere where it needs a thing"""
    thing: int = -1


@dataclass(slots=True, eq=False)
class Matching:
    """Demands that are met, one after another; the last can be undone.

    T types of demands, V things, N places, E pairs of a thing and a place. The check is exact (Hall's
    condition, by augmenting paths), and adding a demand never makes another place possible.
    """

    supply: Supply
    _demands: list[_Demand] = field(default_factory=list)
    _past: list[list[_Demand]] = field(default_factory=list)
    _reach: dict[int, Mask] = field(default_factory=dict)

    def possible(self, types: Iterable[int]) -> Mask:
        """(N,) where a demand of each of these types could be met beside those that are met now.

        Each type is judged alone: exact for one, an upper bound for several.
        """
        found = np.ones(self.supply.spared.shape[1], dtype=np.bool_)
        for kind in types:
            same = self._same(kind)
            usable = self.supply.suits[kind] if same is None else same.usable
            there = self.supply.where(usable & self._open(but=same))
            found &= there if same is not None and same.needs else self.supply.spared[kind] | there
        return found

    def add(self, types: Iterable[int], place: int) -> bool:
        """Add a demand of each type at a place. If not all can be met, nothing changes."""
        self._past.append(self._demands)
        self._demands = list(self._demands)
        if all(self._add(kind, self._at(place), spared=self.supply.spared[kind, place]) for kind in types):
            return True
        self.undo()
        return False

    def undo(self) -> None:
        """Take the demands of the last `add` back."""
        self._demands = self._past.pop()

    def suffices(self, wanted: Sequence[tuple[Sequence[int], int, Mask]]) -> bool:
        """Whether all these fit beside those that are met now, if each thing could be used at all places.

        wanted: the types of demands, how often they come, and (N,) where that may be. A bound: if False, no
        choice of places works.
        """
        self._past.append(self._demands)
        self._demands = list(self._demands)
        found = all(
            self._add(kind, self.supply.at(places), spared=bool(self.supply.spared[kind, places].any()))
            for types, number, places in wanted
            for _ in range(number)
            for kind in types
            if not self.supply.joint[kind]
        )
        self.undo()
        return found

    def _add(self, kind: int, reach: Mask, *, spared: bool) -> bool:
        same, usable = self._same(kind), self.supply.suits[kind] & reach
        if same is None:
            if spared and not self.supply.joint[kind]:
                return True
            self._demands.append(_Demand(kind, usable, not spared))
            return spared or self._augment(len(self._demands) - 1)
        at = self._demands.index(same)
        usable, needs = same.usable & usable, same.needs or not spared
        kept = same.thing if same.thing >= 0 and usable[same.thing] else -1
        self._demands[at] = _Demand(kind, usable, needs, kept)
        return not needs or kept >= 0 or self._augment(at)

    def _same(self, kind: int) -> _Demand | None:
        """The demand that a type stands for, if it is one for all and is there."""
        if not self.supply.joint[kind]:
            return None
        return next((demand for demand in self._demands if demand.kind == kind), None)

    def _at(self, place: int) -> Mask:
        if place not in self._reach:
            only = np.zeros(self.supply.spared.shape[1], dtype=np.bool_)
            only[place] = True
            self._reach[place] = self.supply.at(only)
        return self._reach[place]

    def _open(self, *, but: _Demand | None) -> Mask:
        """(V,) the things that one more demand could have, if others are exchanged. `but` has none."""
        found = np.ones(self.supply.suits.shape[1], dtype=np.bool_)
        closed = [demand for demand in self._demands if demand.thing >= 0 and demand is not but]
        found[[demand.thing for demand in closed]] = False
        while movable := [demand for demand in closed if (demand.usable & found).any()]:
            found[[demand.thing for demand in movable]] = True
            closed = [demand for demand in closed if not found[demand.thing]]
        return found

    def _augment(self, start: int) -> bool:
        """Give a thing to one more demand; others may change theirs."""
        holder = {demand.thing: at for at, demand in enumerate(self._demands) if demand.thing >= 0}
        reached: dict[int, int] = {}
        queue = [start]
        for at in queue:
            for thing in np.flatnonzero(self._demands[at].usable).tolist():
                if thing in reached:
                    continue
                reached[thing] = at
                if thing in holder:
                    queue.append(holder[thing])
                    continue
                self._exchange(start, thing, reached)
                return True
        return False

    def _exchange(self, start: int, thing: int, reached: dict[int, int]) -> None:
        """Along the way back to the start, each demand takes the thing by which it was reached next."""
        while True:
            at = reached[thing]
            demand = self._demands[at]
            self._demands[at] = _Demand(demand.kind, demand.usable, demand.needs, thing)
            if at == start:
                return
            thing = demand.thing


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

    K kinds, N places, R resources. Things are put one after another; each must be allowed where it is
    put at that moment. The search is complete within its steps and says so when it gives up.
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
