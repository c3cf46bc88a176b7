"""What is held, as columns over one fleet, kept up to date device by device. Source: CTR-2, AS-4."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from kernels.fit import drawn, fits
from kernels.types import Amounts, Mask, Rows
from reconciler.inventory.fleet import Fleet
from reconciler.inventory.ledger import Ledger
from reconciler.objects.meta import DeviceID


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Columns of D devices and S counter sets. A change makes new arrays; these never change."""

    held: Mask
    """(D,) held by a claim of its own"""
    sharing: Mask
    """(D,) held in shares"""
    left: Amounts
    """(S, C) what the counter sets still have; negative where over-committed"""
    fits: Mask
    """(D,) the device's own draw fits into what is left, and its pool is not over-committed (CTR-6)"""
    consumed: Mapping[int, Mapping[str, int]]
    """row of a shared device -> capacity key -> billionths consumed"""


def occupy(fleet: Fleet, ledger: Ledger) -> Occupancy:
    """The columns from scratch."""
    held = np.zeros(fleet.size, dtype=np.bool_)
    sharing = np.zeros(fleet.size, dtype=np.bool_)
    consumed: dict[int, Mapping[str, int]] = {}
    for device in ledger.devices():
        state = ledger.state(device)
        for row in fleet.rows_of(device):
            held[row] = bool(state.alone)
            sharing[row] = bool(state.shares)
            if state.shares:
                consumed[row] = state.consumed
    taken = held | sharing
    left = fleet.totals - drawn(len(fleet.totals), fleet.table, fleet.sets[taken], fleet.draws[taken])
    return _frozen(Occupancy(held, sharing, left, _judge(fleet, left, np.arange(fleet.size)), consumed))


def after(before: Occupancy, fleet: Fleet, ledger: Ledger, changed: Iterable[DeviceID]) -> Occupancy:
    """The columns once the state of some devices has changed.

    Copies are cheap beside a decision; only devices that share a counter set with a change are judged again.
    """
    held, sharing = before.held.copy(), before.sharing.copy()
    consumed = dict(before.consumed)
    rows = [row for device in changed for row in fleet.rows_of(device)]
    for row in rows:
        state = ledger.state(fleet.id_of(row))
        held[row] = bool(state.alone)
        sharing[row] = bool(state.shares)
        consumed.pop(row, None)
        if state.shares:
            consumed[row] = state.consumed
    at = np.array(rows, dtype=np.intp)
    was = before.held[at] | before.sharing[at]
    now = held[at] | sharing[at]
    gone, come = at[was & ~now], at[now & ~was]
    sets = np.unique(fleet.sets[np.concatenate([gone, come])])
    sets = sets[sets >= 0]
    left, judged = before.left, before.fits
    if len(sets):
        size = len(fleet.totals)
        left = left + drawn(size, fleet.table, fleet.sets[gone], fleet.draws[gone])
        left -= drawn(size, fleet.table, fleet.sets[come], fleet.draws[come])
        again = fleet.by_set.of_any(_concerned(fleet, before.left, left, sets))
        judged = judged.copy()
        judged[again] = _judge(fleet, left, again)
    return _frozen(Occupancy(held, sharing, left, judged, consumed))


def _judge(fleet: Fleet, left: Amounts, rows: Rows) -> Mask:
    """(n,) whether the draws of some devices fit."""
    sets = fleet.sets[rows]
    fine = fits(left, fleet.table, sets, fleet.draws[rows])
    over = fleet.set_group[(left < 0).any(axis=1)]
    if len(over):
        fine &= ~((sets >= 0) & np.isin(fleet.set_group[sets], over)).any(axis=1)
    return fine


def _concerned(fleet: Fleet, before: Amounts, after: Amounts, sets: Rows) -> Rows:
    """The sets whose devices are to be judged again: those that changed, and with them the other sets of a
    pool that has become over-committed or has ceased to be.
    """
    turned = (before[sets] < 0).any(axis=1) != (after[sets] < 0).any(axis=1)
    if not turned.any():
        return sets
    groups = np.unique(fleet.set_group[sets[turned]])
    return np.union1d(sets, np.flatnonzero(np.isin(fleet.set_group, groups)))


def _frozen(occupancy: Occupancy) -> Occupancy:
    for array in (occupancy.held, occupancy.sharing, occupancy.left, occupancy.fits):
        array.setflags(write=False)
    return occupancy
