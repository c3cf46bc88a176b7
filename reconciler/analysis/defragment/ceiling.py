"""How much can be gained at most, however many pods move. Source: MOVE-4."""

from collections.abc import Sequence

import numpy as np

from kernels.types import Amounts, Mask, Rows
from reconciler.allocation.dra.refusal import Fatal
from reconciler.allocation.dra.request_options import RequestKey, RequestOption, read_claims
from reconciler.allocation.dra.static_match import match_in_fleet
from reconciler.analysis.capacity.families import families
from reconciler.analysis.defragment.goals import ProfileGoal
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


def most_by_amounts(
    goal: ProfileGoal, movers: Sequence[Mover], holds: Holds, snapshot: Snapshot
) -> int | None:
    """How many fit at most, as if all free amounts of each counter family were in one place.

    A pod that moves may draw less than now, but not less than the smallest device that suits it. None if the
    sets count in different units, or nothing limits the number.
    """
    fleet = snapshot.fleet
    sets = np.concatenate([np.zeros(0, dtype=np.intp), *goal.sets])
    scales = {fleet.set_columns[int(number)].scale for number in sets}
    if len(scales) != 1:
        return None
    names, of_counter = families(scales.pop())
    into: Amounts = np.zeros((fleet.totals.shape[1], len(names)), dtype=np.int64)
    into[np.arange(len(of_counter)), list(of_counter)] = 1
    of_device = _drawn(np.arange(fleet.size), snapshot) @ into
    counted = np.concatenate([np.zeros(0, dtype=np.intp), *goal.rows])
    if not len(counted):
        return None
    needed = of_device[counted].min(axis=0)
    room = np.maximum(holds.left[sets], 0).sum(axis=0) @ into
    known: dict[RequestKey, Amounts] = {}
    for mover in movers:
        least = np.zeros(len(names), dtype=np.int64)
        for option in _options(mover, snapshot) if _plain(mover, snapshot) else ():
            if option.key not in known:
                suits: Mask = match_in_fleet(option, snapshot).suitable
                known[option.key] = of_device[suits].min(axis=0) if suits.any() else 0 * least
            least += known[option.key] * option.source.wanted
        room += np.maximum(of_device[mover.rows].sum(axis=0) - least, 0)
    limits = room[needed > 0] // needed[needed > 0]
    return int(limits.min()) if len(limits) else None


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
