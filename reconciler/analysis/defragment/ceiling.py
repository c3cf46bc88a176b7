"""How much can be gained at most, however many pods move. Source: MOVE-4."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kernels.distinct import distinct
from kernels.types import Amounts, Codes, Mask, Rows
from reconciler.allocation.dra.refusal import Fatal
from reconciler.allocation.dra.request_options import RequestKey, RequestOption, read_claims
from reconciler.allocation.dra.static_match import match_in_fleet
from reconciler.analysis.capacity.families import families
from reconciler.analysis.defragment.goals import Goal, ProfileGoal
from reconciler.analysis.defragment.holds import Holds
from reconciler.analysis.defragment.movers import Mover
from reconciler.state.devices.snapshot.snapshot import Snapshot


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
        options = _options(mover, snapshot)
        if counted[mover.rows].all() and _plain(mover, snapshot) and all(map(only_counted, options)):
            found.append(at)
    return frozenset(found)


def most_by_amounts(goal: Goal, movers: Sequence[Mover], holds: Holds, snapshot: Snapshot) -> int | None:
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


def _pool(goal: Goal, movers: Sequence[Mover], holds: Holds, snapshot: Snapshot) -> _Pool | None:
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
        for option in _options(mover, snapshot) if _plain(mover, snapshot) else ():
            if option.key not in known:
                suits: Mask = match_in_fleet(option, snapshot).suitable
                known[option.key] = drawn[suits].min(axis=0) if suits.any() else 0 * least
            least += known[option.key] * option.source.wanted
        room += np.maximum(drawn[mover.rows].sum(axis=0) - least, 0)
    return _Pool(drawn, fleet.totals[sets] @ into, field_of_set[sets], room)


def _options(mover: Mover, snapshot: Snapshot) -> list[RequestOption]:
    try:
        slots = read_claims(mover.claims, snapshot.classes, snapshot.rules).slots
    except Fatal:
        return []
    return [option for slot in slots for option in slot.options]


def _plain(mover: Mover, snapshot: Snapshot) -> bool:
    """Whether each request has one option, and takes a number of devices that nobody shares."""
    options = _options(mover, snapshot)
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
