"""Groups of devices one after the other in a box: which counts they can give together."""

from typing import NamedTuple

import numpy as np
from msgspec import Struct, field

from kernels.boxes import Box, Step, moved
from kernels.types import Amounts


class Table(NamedTuple):
    """What a group can give."""

    number: int
    """Equal tables have equal numbers"""
    counts: Amounts
    """(v, K) largest counts of the kinds"""
    uses: Amounts
    """(v, limits) how often each limit is used for that"""
    limits: tuple[tuple[int, int], ...]
    """The number of a rule, and the value if a group has several, else -1"""
    rough: bool
    """Whether the group was too large: it cannot give as much as this says"""


Limit = tuple[int, int]
"""A constraint on several groups: its number, and the value that it is about; -1 for matchAttribute"""


class Entry(NamedTuple):
    """One group."""

    nearby: tuple[int, ...]
    """Its values for limits that several groups share: such groups follow one another"""
    number: int
    """That of the table"""
    limits: tuple[Limit | None, ...]
    """Of each limit of the table: what stands for it; None for one that lies in the group"""
    table: Table


class Frame(Struct):
    """A box, and the sets of cells that were found in it."""

    box: Box
    sets: list[int]
    known: dict[tuple[object, ...], int] = field(default_factory=dict)
    """The next set: by a set, what is renewed, a table, and the places of its limits"""
    steps: dict[tuple[object, ...], tuple[list[Step], list[int]]] = field(default_factory=dict)

    def start(self, kinds: int) -> int:
        """The number of the set where nothing is given yet, and everything is allowed."""
        if not self.sets:
            self.sets.append(self.box.below([0] * kinds + list(self.box.caps[kinds:])))
        return 0

    def after(self, node: int, renewed: tuple[int, ...], table: Table, places: tuple[int, ...]) -> int:
        """The number of the set after a group has given what it can.

        renewed  kinds of the box that stand for limits of the groups that follow
        places   kinds of the box for the limits of the table; -1 for those that lie in the group
        """
        key = node, renewed, table.number, places
        if key not in self.known:
            cells = self.sets[node]
            for kind in renewed:
                cells = self.box.renewed(cells, kind)
            steps, rises = self._steps(table, places)
            cells |= self.box.closed(moved(cells, steps), rises)
            if cells == self.sets[node]:  # many equal groups give no more at some point
                self.known[key] = node
            else:
                self.known[key] = len(self.sets)
                self.sets.append(cells)
        return self.known[key]

    def _steps(self, table: Table, places: tuple[int, ...]) -> tuple[list[Step], list[int]]:
        key = table.number, places
        if key not in self.steps:
            vectors = np.zeros((len(table.counts), len(self.box.caps)), dtype=np.int64)
            vectors[:, : table.counts.shape[1]] = table.counts
            for at, place in enumerate(places):
                if place >= 0:
                    vectors[:, place] -= table.uses[:, at]
            steps = [self.box.step(vector) for vector in set(map(tuple, vectors.tolist()))]
            self.steps[key] = steps, np.maximum(vectors.max(axis=0), 0).tolist()
        return self.steps[key]


def places_of(entries: list[Entry], kinds: int) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]], int]:
    """The kinds of the box that stand for limits.

    -> of each group, the kinds of its limits; -1 for limits that lie in the group
       of each group, those of these kinds that stood for another limit before
       how many such kinds there are

    A limit needs its kind from the first group that it concerns to the last one.
    """
    last = {limit: at for at, entry in enumerate(entries) for limit in entry.limits}
    place: dict[Limit | None, int] = {None: -1}
    free: list[int] = []
    places, renewed, used = [], [], 0
    for at, entry in enumerate(entries):
        new = []
        for limit in entry.limits:
            if limit not in place:
                if free:
                    new.append(free[-1])
                else:
                    free.append(kinds + used)
                    used += 1
                place[limit] = free.pop()
        places.append(tuple([place[limit] for limit in entry.limits]))
        renewed.append(tuple(new))
        free += [place[limit] for limit in entry.limits if limit is not None and last[limit] == at]
    return places, renewed, used
