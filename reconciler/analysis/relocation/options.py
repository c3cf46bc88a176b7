"""What moves can gain: the fewest pods that must leave each field for each gain, and the most that any moves
can gain. Source: MOVE-3, MOVE-4.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations
from math import ceil
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from kernels.groups import distinct
from kernels.types import Amounts, Codes, Mask, Rows
from reconciler.allocation.dra.budget import Fatal
from reconciler.allocation.dra.request_options import RequestKey, RequestOption, read_claims
from reconciler.allocation.dra.static_match import match_in_fleet
from reconciler.analysis.capacity.profiles import families
from reconciler.analysis.relocation.goals import Count, Goal, ProfileGoal
from reconciler.analysis.relocation.movers import FieldHolds, Mover
from reconciler.state.devices.snapshot import Snapshot

MOST_IN_FIELD = 10
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
    field: int, goal: Goal, holds: FieldHolds, movers: Sequence[Mover], blockers: Blockers
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
    holds: FieldHolds,
    movers: Sequence[Mover],
    *,
    useless: Iterable[int],
) -> Iterator[Option]:
    """The sets of the fewest pods inside a field for each gain; none of `useless` pods only.

    Changes `holds`, and changes it back.
    """
    useless, before = frozenset(useless), goal.count(field, holds)
    best, few = 0, len(inside) <= MOST_IN_FIELD and not goal.all_or_nothing
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
    holds: FieldHolds,
    movers: Sequence[Mover],
    blockers: Blockers,
) -> tuple[dict[int, Fraction], int]:
    """The least weight for each gain, and the most that can be gained."""
    most = max(_without(inside, field, goal, holds, movers).most - before.least, 0)
    if goal.all_or_nothing:
        return {1: sum(map(blockers.weight, inside), start=Fraction(0))} if most else {}, most
    if len(inside) > MOST_IN_FIELD:
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


def _without(
    chosen: Sequence[int], field: int, goal: Goal, holds: FieldHolds, movers: Sequence[Mover]
) -> Count:
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


def alike(goal: ProfileGoal, movers: Sequence[Mover], snapshot: Snapshot) -> frozenset[int]:
    """Movers whose requests only devices of the profile can meet, wherever they go."""
    counted = np.zeros(snapshot.fleet.size, dtype=np.bool_)
    counted[goal.every] = True
    known: dict[RequestKey, bool] = {}

    def only_counted(option: RequestOption) -> bool:
        if option.key not in known:
            known[option.key] = not bool((match_in_fleet(option, snapshot).suitable & ~counted).any())
        return known[option.key]

    found = []
    for at, mover in enumerate(movers):
        options = _options_of_mover(mover, snapshot)
        if counted[mover.rows].all() and _plain(mover, snapshot) and all(map(only_counted, options)):
            found.append(at)
    return frozenset(found)


def most_by_amounts(goal: Goal, movers: Sequence[Mover], holds: FieldHolds, snapshot: Snapshot) -> int | None:
    """How many there are at most, as if all that is free in all fields were in one place.

    None if counter sets count in different units, or if nothing limits the number.
    """
    pool = _pool(goal, movers, holds, snapshot)
    if pool is None:
        return None
    if isinstance(goal, ProfileGoal):
        counted = np.concatenate([np.zeros(0, dtype=np.intp), *goal.rows])
        if not len(counted):
            return None
        needed = pool.drawn[counted].min(axis=0)
        limits = pool.room[needed > 0] // needed[needed > 0]
        return int(limits.min()) if len(limits) else None
    whole = np.zeros((goal.fields, len(pool.room)), dtype=np.int64)
    np.add.at(whole, pool.field_of_set, pool.totals)
    devices = np.flatnonzero((goal.of >= 0) & (pool.drawn[:, -1] > 0))
    np.add.at(whole[:, -1], goal.of[devices], 1)
    # With the smallest fields first, most of them are free within the room.
    fitting = [
        int((np.cumsum(np.sort(each)) <= room).sum()) for each, room in zip(whole.T, pool.room, strict=True)
    ]
    return min(fitting)


class _Pool(NamedTuple):
    """All fields together; the last column counts the devices without draws."""

    drawn: Amounts
    """(D, F + 1) what each device draws of each counter family; nothing outside the fields"""
    totals: Amounts
    """(n, F + 1) of the counter sets in fields"""
    field_of_set: Codes
    """(n,)"""
    room: Amounts
    """(F + 1,) no moves leave more free"""


def _pool(goal: Goal, movers: Sequence[Mover], holds: FieldHolds, snapshot: Snapshot) -> _Pool | None:
    """What is free in all fields, and what movers can free: the difference to the least that they draw.

    A pod that may leave the fields, or whose demand cannot be counted, draws nothing at least.
    """
    fleet = snapshot.fleet
    inside = goal.of >= 0
    k_sets = fleet.sets[inside]
    sets = distinct(k_sets[k_sets >= 0])
    field_of_set = np.full(len(fleet.totals), -1, dtype=np.int32)
    for k in range(fleet.sets.shape[1]):
        rows = np.flatnonzero(inside & (fleet.sets[:, k] >= 0))
        field_of_set[fleet.sets[rows, k]] = goal.of[rows]
        if (field_of_set[fleet.sets[rows, k]] != goal.of[rows]).any():
            return None  # a set is in several fields
    scales = {fleet.set_columns[int(number)].scale for number in sets}
    if len(scales) > 1:
        return None
    names, of_counter = families(scales.pop()) if scales else ((), ())
    into: Amounts = np.zeros((fleet.totals.shape[1], len(names) + 1), dtype=np.int64)
    into[np.arange(len(of_counter)), list(of_counter)] = 1
    drawn = np.where(inside[:, None], _drawn(np.arange(fleet.size), snapshot) @ into, 0)
    drawn[:, -1] = inside & ~(fleet.sets >= 0).any(axis=1)
    room = np.maximum(holds.left[sets], 0).sum(axis=0) @ into
    room[-1] = int((drawn[:, -1] * (holds.holders == 0)).sum())
    known: dict[RequestKey, Amounts] = {}
    for mover in movers:
        least = np.zeros(len(room), dtype=np.int64)
        for option in _options_of_mover(mover, snapshot) if _plain(mover, snapshot) else ():
            if option.key not in known:
                suits: Mask = match_in_fleet(option, snapshot).suitable
                known[option.key] = drawn[suits].min(axis=0) if suits.any() else 0 * least
            least += known[option.key] * option.source.wanted
        room += np.maximum(drawn[mover.rows].sum(axis=0) - least, 0)
    return _Pool(drawn, fleet.totals[sets] @ into, field_of_set[sets], room)


def _options_of_mover(mover: Mover, snapshot: Snapshot) -> list[RequestOption]:
    try:
        slots = read_claims(mover.claims, snapshot.classes, snapshot.rules).slots
    except Fatal:
        return []
    return [option for slot in slots for option in slot.options]


def _plain(mover: Mover, snapshot: Snapshot) -> bool:
    """Whether each request has one option, and takes a number of devices that nobody shares."""
    options = _options_of_mover(mover, snapshot)
    wanted = sum(option.source.wanted for option in options)
    plain = not any(option.all or option.admin or option.alternative for option in options)
    return plain and wanted == len(mover.rows) and not snapshot.fleet.shared[mover.rows].any()


def _drawn(rows: Rows, snapshot: Snapshot) -> Amounts:
    """(n, C) what devices draw of all their sets together."""
    fleet = snapshot.fleet
    found = np.zeros((len(rows), fleet.totals.shape[1]), dtype=np.int64)
    for k in range(fleet.sets.shape[1]):
        uses = np.flatnonzero(fleet.sets[rows, k] >= 0)
        found[uses] += fleet.table[fleet.draws[rows[uses], k]]
    return found
