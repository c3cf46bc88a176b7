"""Whether demands can all be met, each by a thing of its own that can be used where the demand is.

T types of demands, V things, N places, E pairs of a thing and a place. The check is exact (Hall's condition,
by augmenting paths), and adding a demand never makes another place possible.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from kernels.types import Amounts, Mask, Rows


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
    """Demands that are met, one after another; the last can be undone."""

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
