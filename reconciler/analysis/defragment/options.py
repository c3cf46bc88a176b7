"""For each field, the fewest pods that must leave it for each gain, whatever happens to them then."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations
from math import ceil

from msgspec import Struct

from kernels.distinct import distinct
from reconciler.analysis.defragment.goals import Count, Goal
from reconciler.analysis.defragment.holds import Holds
from reconciler.analysis.defragment.movers import Mover

MOST_TRIED = 10
"""Pods of a field of which all sets are tried; of more, only all together, and then nothing is proven"""


class Option(Struct, frozen=True):
    """Pods that leave a field, and what it gains."""

    field: int
    movers: tuple[int, ...]
    """Positions among the movers"""
    gain: int

    @property
    def moves(self) -> int:
        return len(self.movers)


class FieldOptions(Struct, frozen=True):
    """What can be gained in one field."""

    options: tuple[Option, ...]
    """For each gain that is possible, the sets of the fewest pods"""
    at_least: Mapping[int, Fraction]
    """Gain -> no set of pods that gains so much or more weighs less, see `fewest_moves`"""
    most: int
    """No set of pods gains more"""


class Blockers:
    """Which pods hold devices in which fields."""

    def __init__(self, goal: Goal, movers: Sequence[Mover], alike: Iterable[int] = ()) -> None:
        """`alike` are movers that need what is counted themselves: wherever they go, they take as much."""
        self.of_field: dict[int, list[int]] = {}
        """Field -> movers"""
        self.fields_of: list[tuple[int, ...]] = []
        """Mover -> fields"""
        for at, mover in enumerate(movers):
            fields = distinct(goal.of[mover.rows])
            self.fields_of.append(tuple(fields[fields >= 0].tolist()))
            for field in self.fields_of[-1]:
                self.of_field.setdefault(field, []).append(at)
        self.alike = frozenset(at for at in alike if len(self.fields_of[at]) == 1)

    def weight(self, mover: int) -> Fraction:
        """One move, divided among the fields that it may help."""
        return Fraction(1, len(self.fields_of[mover]))


def options_of(
    field: int, goal: Goal, holds: Holds, movers: Sequence[Mover], blockers: Blockers
) -> FieldOptions | None:
    """What one field can gain; None if nothing. Changes `holds`, and changes it back."""
    inside = blockers.of_field.get(field, [])
    before = goal.count(field, holds)
    alike = [at for at in inside if at in blockers.alike]
    for at in alike:
        holds.give_back(movers[at].rows)
    whole = goal.count(field, holds)
    taken = sum(int((goal.of[movers[at].rows] == field).sum()) for at in alike)
    if whole.most > before.least + taken:  # they waste room, so that moving them may gain
        for at in alike:
            holds.take(movers[at].rows)
        alike, whole = [], before
    others = [at for at in inside if at not in alike]
    at_least, most = _proof(others, whole, field, goal, holds, movers, blockers)
    for at in alike:
        holds.take(movers[at].rows)
    options = tuple(sets_of(inside, field, goal, holds, movers, useless=alike))
    return FieldOptions(options, at_least, most) if most > 0 else None


def sets_of(
    inside: Sequence[int],
    field: int,
    goal: Goal,
    holds: Holds,
    movers: Sequence[Mover],
    *,
    useless: Iterable[int],
) -> Iterator[Option]:
    """The sets of the fewest pods inside a field for each gain; none of `useless` pods only.

    Changes `holds`, and changes it back.
    """
    useless, before = frozenset(useless), goal.count(field, holds)
    best, few = 0, len(inside) <= MOST_TRIED and not goal.all_or_nothing
    for size in range(1 if few else max(len(inside), 1), len(inside) + 1):
        reached = best
        for chosen in combinations(inside, size):
            if useless.issuperset(chosen):
                continue
            gain = _without(chosen, field, goal, holds, movers).least - before.most
            if gain > best:
                # A pod may go to another place in the same field, so that less is gained.
                yield from (Option(field, chosen, part) for part in range(gain, 0, -1))
                reached = max(reached, gain)
        best = reached


def _proof(
    inside: Sequence[int],
    before: Count,
    field: int,
    goal: Goal,
    holds: Holds,
    movers: Sequence[Mover],
    blockers: Blockers,
) -> tuple[dict[int, Fraction], int]:
    """The least weight for each gain, and the most that can be gained."""
    most = max(_without(inside, field, goal, holds, movers).most - before.least, 0)
    if goal.all_or_nothing:
        return {1: sum(map(blockers.weight, inside), start=Fraction(0))} if most else {}, most
    if len(inside) > MOST_TRIED:
        lightest = min((blockers.weight(at) for at in inside), default=Fraction(0))
        return dict.fromkeys(range(1, most + 1), lightest), most
    found: dict[int, Fraction] = {}
    for size in range(1, len(inside) + 1) if most else ():
        for chosen in combinations(inside, size):
            weight = sum((blockers.weight(at) for at in chosen), start=Fraction(0))
            if most in found and found[most] <= weight:
                continue
            count = _without(chosen, field, goal, holds, movers)
            for gain in range(1, count.most - before.least + 1):
                found[gain] = min(weight, found.get(gain, weight))
    return found, most


def _without(chosen: Sequence[int], field: int, goal: Goal, holds: Holds, movers: Sequence[Mover]) -> Count:
    """How many fit in a field without some pods."""
    for at in chosen:
        holds.give_back(movers[at].rows)
    found = goal.count(field, holds)
    for at in chosen:
        holds.take(movers[at].rows)
    return found


def fewest_moves(found: Sequence[FieldOptions], gain: int) -> int | None:
    """No plan with fewer moves gains so much; None if none gains it. Source: MOVE-3.

    A move counts in each field that it may help with its part, so that one move counts at most once.
    """
    unknown = Fraction(-1)
    lightest = [Fraction(0), *[unknown] * gain]
    for one in found:
        for total in range(gain, 0, -1):
            for step, weight in one.at_least.items():
                before = lightest[max(total - step, 0)]
                if before >= 0 and (lightest[total] < 0 or before + weight < lightest[total]):
                    lightest[total] = before + weight
    return ceil(lightest[gain]) if lightest[gain] >= 0 else None
