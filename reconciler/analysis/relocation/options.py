"""What moves can gain: for each field the fewest pods that must leave it for each gain, and bounds.

Source: MOVE-3, MOVE-4. A bound holds whatever moves: it says what no plan can beat.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations
from math import ceil

import numpy as np
from msgspec import Struct

from kernels.types import Amounts, Mask, Rows
from reconciler.allocation.dra.budget import Fatal
from reconciler.allocation.dra.request_options import RequestKey, RequestOption, read_claims
from reconciler.allocation.dra.static_match import match_in_fleet
from reconciler.analysis.capacity.layout import families
from reconciler.analysis.relocation.goals import AnyGoal, Count, Held, Mover, ProfileGoal
from reconciler.state.devices.snapshot import Snapshot

MOST_IN_FIELD = 10
"""Pods of a field of which all sets are tried; of more, only all together, and then nothing is proven"""


class Option(Struct, frozen=True):
    """Pods that leave a field, and what it gains."""

    field: int
    movers: tuple[int, ...]
    """Positions among the movers"""
    gain: int


class FieldOptions(Struct, frozen=True):
    """What can be gained in one field."""

    options: tuple[Option, ...]
    """For each gain that is possible, the sets of the fewest pods"""
    at_least: Mapping[int, Fraction]
    """Gain -> no set of pods that gains so much or more weighs less, see `fewest_moves`"""
    most: int
    """No set of pods gains more"""


class Blockers:
    """Which pods hold devices in which fields, and what the fields gain without them.

    All methods change the holds that they get, and change them back.
    """

    def __init__(self, goal: AnyGoal, movers: Sequence[Mover], snapshot: Snapshot) -> None:
        self._goal, self._movers = goal, movers
        self.of_field: dict[int, list[int]] = {}
        """Field -> movers"""
        self._fields_of: list[list[int]] = []
        """Mover -> fields"""
        for at, mover in enumerate(movers):
            self._fields_of.append(goal.fields_of(mover.rows))
            for field in self._fields_of[-1]:
                self.of_field.setdefault(field, []).append(at)
        alike = _alike(goal, movers, snapshot) if isinstance(goal, ProfileGoal) else ()
        self._alike = frozenset(at for at in alike if len(self._fields_of[at]) == 1)
        """Movers that need what is counted themselves: wherever they go, they take as much"""

    def options_of(self, field: int, holds: Held) -> FieldOptions | None:
        """What one field can gain; None if nothing."""
        goal, movers = self._goal, self._movers
        inside = self.of_field.get(field, [])
        alike = [at for at in inside if at in self._alike]
        before, whole = goal.count(field, holds), self._without(alike, field, holds)
        taken = sum(int((goal.of[movers[at].rows] == field).sum()) for at in alike)
        if whole.most > before.least + taken:  # they waste room, so that moving them may gain
            alike, whole = [], before
        for at in alike:
            holds.give_back(movers[at].rows)
        at_least, most = self._proof([at for at in inside if at not in alike], whole, field, holds)
        for at in alike:
            holds.take(movers[at].rows)
        options = tuple(self.sets_of(inside, field, holds, useless=alike))
        return FieldOptions(options, at_least, most) if most > 0 else None

    def sets_of(
        self, inside: Sequence[int], field: int, holds: Held, *, useless: Iterable[int] | None = None
    ) -> Iterator[Option]:
        """The sets of the fewest pods inside a field for each gain; none of `useless` pods only.

        Without `useless`: none of pods only that need what is counted themselves.
        """
        useless = self._alike if useless is None else frozenset(useless)
        before = self._goal.count(field, holds)
        best, few = 0, len(inside) <= MOST_IN_FIELD and not self._goal.all_or_nothing
        for size in range(1 if few else max(len(inside), 1), len(inside) + 1):
            reached = best
            for chosen in combinations(inside, size):
                if useless.issuperset(chosen):
                    continue
                gain = self._without(chosen, field, holds).least - before.most
                if gain > best:
                    # A pod may go to another place in the same field, so that less is gained.
                    yield from (Option(field, chosen, part) for part in range(gain, 0, -1))
                    reached = max(reached, gain)
            best = reached

    def _proof(
        self, inside: Sequence[int], before: Count, field: int, holds: Held
    ) -> tuple[dict[int, Fraction], int]:
        """The least weight for each gain, and the most that can be gained."""
        weights = {at: Fraction(1, len(self._fields_of[at])) for at in inside}
        most = max(self._without(inside, field, holds).most - before.least, 0)
        if self._goal.all_or_nothing:
            return {1: sum(weights.values(), start=Fraction(0))} if most else {}, most
        if len(inside) > MOST_IN_FIELD:
            return dict.fromkeys(range(1, most + 1), min(weights.values())), most
        found: dict[int, Fraction] = {}
        for size in range(1, len(inside) + 1) if most else ():
            for chosen in combinations(inside, size):
                weight = sum((weights[at] for at in chosen), start=Fraction(0))
                if most in found and found[most] <= weight:
                    continue
                count = self._without(chosen, field, holds)
                for gain in range(1, count.most - before.least + 1):
                    found[gain] = min(weight, found.get(gain, weight))
        return found, most

    def _without(self, chosen: Sequence[int], field: int, holds: Held) -> Count:
        """How many fit in a field without some pods."""
        for at in chosen:
            holds.give_back(self._movers[at].rows)
        found = self._goal.count(field, holds)
        for at in chosen:
            holds.take(self._movers[at].rows)
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


def most_by_amounts(goal: AnyGoal, movers: Sequence[Mover], holds: Held, snapshot: Snapshot) -> int | None:
    """How many there are at most, however many pods move, as if all that is free in all fields were in one.

    A pod that moves frees at most the difference to the least that it draws; one that may leave the fields,
    or whose demand cannot be counted, draws nothing at least. None if counter sets count in different units,
    or if nothing limits the number. Amounts are of F counter families; the last column, F + 1, counts devices
    without draws. Source: MOVE-4.
    """
    fleet, inside = snapshot.fleet, goal.of >= 0
    field_of_set = np.full(len(fleet.totals), -1, dtype=np.int32)
    for k in range(fleet.sets.shape[1]):
        rows = np.flatnonzero(inside & (fleet.sets[:, k] >= 0))
        field_of_set[fleet.sets[rows, k]] = goal.of[rows]
        if (field_of_set[fleet.sets[rows, k]] != goal.of[rows]).any():
            return None  # a set is in several fields
    sets = np.flatnonzero(field_of_set >= 0)
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
        for option in _plain_options(mover, snapshot):
            if option.key not in known:
                suits: Mask = match_in_fleet(option, snapshot).suitable
                known[option.key] = drawn[suits].min(axis=0) if suits.any() else 0 * least
            least += known[option.key] * option.source.wanted
        room += np.maximum(drawn[mover.rows].sum(axis=0) - least, 0)
    if isinstance(goal, ProfileGoal):
        counted = np.concatenate([np.zeros(0, dtype=np.intp), *goal.rows])
        if not len(counted):
            return None
        needed = drawn[counted].min(axis=0)
        limits = room[needed > 0] // needed[needed > 0]
        return int(limits.min()) if len(limits) else None
    whole = np.zeros((goal.fields, len(room)), dtype=np.int64)
    np.add.at(whole, field_of_set[sets], fleet.totals[sets] @ into)
    np.add.at(whole[:, -1], goal.of[np.flatnonzero(drawn[:, -1])], 1)
    # With the smallest fields first, most of them are free within the room.
    return min(
        int((np.cumsum(np.sort(each)) <= limit).sum()) for each, limit in zip(whole.T, room, strict=True)
    )


def _alike(goal: ProfileGoal, movers: Sequence[Mover], snapshot: Snapshot) -> Iterator[int]:
    """Movers whose requests only devices of the profile can meet, wherever they go."""
    counted = np.zeros(snapshot.fleet.size, dtype=np.bool_)
    counted[goal.every] = True
    for at, mover in enumerate(movers):
        options = _plain_options(mover, snapshot) if counted[mover.rows].all() else []
        if options and not any((match_in_fleet(one, snapshot).suitable & ~counted).any() for one in options):
            yield at


def _plain_options(mover: Mover, snapshot: Snapshot) -> list[RequestOption]:
    """One option for each request; none unless each takes a number of devices that nobody shares."""
    try:
        slots = read_claims(mover.wanted.claims, snapshot.classes, snapshot.rules).slots
    except Fatal:
        return []
    options = [option for slot in slots for option in slot.options]
    plain = not any(option.all or option.admin or option.alternative for option in options)
    wanted = sum(option.source.wanted for option in options)
    plain = plain and wanted == len(mover.rows) and not snapshot.fleet.shared[mover.rows].any()
    return options if plain else []


def _drawn(rows: Rows, snapshot: Snapshot) -> Amounts:
    """(n, C) what devices draw of all their sets together."""
    fleet = snapshot.fleet
    found = np.zeros((len(rows), fleet.totals.shape[1]), dtype=np.int64)
    for k in range(fleet.sets.shape[1]):
        uses = np.flatnonzero(fleet.sets[rows, k] >= 0)
        found[uses] += fleet.table[fleet.draws[rows[uses], k]]
    return found
