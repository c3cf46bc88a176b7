"""What else stops fitting when a device is taken. Computed once for each state of a counter set."""

from collections.abc import Callable

import numpy as np
from msgspec import Struct, field

from kernels.fit import required
from kernels.types import Amounts, Mask, Rows
from reconciler.allocation.policies.room_left import left_of_set
from reconciler.state.devices.occupancy.trail import Trail
from reconciler.state.devices.snapshot.snapshot import Snapshot

FULLNESS = 2**16
"""More than the thousandths of all counters of most sets; only equal losses are ordered by fullness"""
KEPT = 100_000
"""States of counter sets whose losses are remembered. More than that are forgotten together."""


class _Kind(Struct, eq=False):
    """Counter sets whose devices draw the same and have the same weights."""

    required: Amounts
    """(n, C) what must be left for each device"""
    draws: Amounts
    """(n, C) what each device takes"""
    weight: Amounts
    """(n,)"""
    losses: dict[bytes, Amounts] = field(default_factory=dict)
    """State -> (n,) key by device"""


class SetLosses:
    """(D,) keys: the weight of all devices that fit no longer once a device is taken, then what is left.

    For devices that draw from one counter set that no device shares with another set. The key of others has
    their own weight. Valid for one fleet and one demand; follows the allocations.
    """

    def __init__(self, weigh: Callable[[Snapshot], Amounts], snapshot: Snapshot) -> None:
        """`weigh` returns the (D,) weights of devices."""
        fleet = snapshot.fleet
        self._fleet = fleet
        self._weight = weigh(snapshot)
        self._kinds: dict[bytes, _Kind] = {}
        self._kind_of: dict[int, _Kind] = {}
        self._remembered = 0
        self._trail: Trail = snapshot.occupancy.trail
        self._serial = snapshot.occupancy.serial
        self.of_row: Amounts = self._weight * FULLNESS
        """(D,) loss x `FULLNESS` + thousandths left of all counters of the set"""
        self.alone: Mask = np.zeros(fleet.size, dtype=np.bool_)
        """(D,) devices of such sets; the keys of others do not say what their sets have left"""
        for number in range(len(fleet.totals)):
            rows = fleet.by_set.of(number)
            sets = fleet.sets[rows]
            if len(rows) and (sets[:, 0] == number).all() and (sets[:, 1:] < 0).all():
                self._kind_of[number] = self._kind(rows)
                self.alone[rows] = True
        self._evaluate(self._kind_of, snapshot)

    def reaches(self, snapshot: Snapshot) -> bool:
        """Whether `follow` can update the losses to a snapshot."""
        return self._trail is snapshot.occupancy.trail and self._serial <= snapshot.occupancy.serial

    def follow(self, snapshot: Snapshot) -> None:
        """Update the losses to a snapshot. The cost depends on the sets that changed in between."""
        serial = snapshot.occupancy.serial
        if serial != self._serial and self._kind_of:
            rows = self._trail.between(self._serial, serial)
            self._evaluate(set(self._fleet.sets[rows, 0].tolist()), snapshot)
        self._serial = serial

    def _kind(self, rows: Rows) -> _Kind:
        fleet = self._fleet
        draws, weight = fleet.draws[rows, 0], self._weight[rows]
        key = draws.tobytes() + weight.tobytes() + fleet.totals[fleet.sets[rows[0], 0]].tobytes()
        if key not in self._kinds:
            self._kinds[key] = _Kind(required(fleet.table, draws), fleet.table[draws], weight)
        return self._kinds[key]

    def _evaluate(self, sets: "set[int] | dict[int, _Kind]", snapshot: Snapshot) -> None:
        occupancy = snapshot.occupancy
        for number in sets:
            kind = self._kind_of.get(number)
            if kind is None:
                continue
            rows = self._fleet.by_set.of(number)
            left, held = occupancy.left[number], occupancy.held[rows]
            state = left.tobytes() + held.tobytes()
            losses = kind.losses.get(state)
            if losses is None:
                losses = self._remember(kind, state, left, held)
                losses *= FULLNESS
                losses += min(int(left_of_set(left, self._fleet.totals[number])), FULLNESS - 1)
            self.of_row[rows] = losses

    def _remember(self, kind: _Kind, state: bytes, left: Amounts, held: Mask) -> Amounts:
        if self._remembered == KEPT:
            for one in self._kinds.values():
                one.losses.clear()
            self._remembered = 0
        self._remembered += 1
        found = kind.losses[state] = losses_of(kind.required, kind.draws, kind.weight, left, held)
        return found


def losses_of(needed: Amounts, draws: Amounts, weight: Amounts, left: Amounts, held: Mask) -> Amounts:
    """(n,) for each device of a counter set: the weight of all that fit now and not after it is taken.

    needed (n, C)  what must be left for each device
    draws  (n, C)  what each device takes
    weight (n,)
    left   (C,)    what is left in the set
    held   (n,)    devices that are taken already
    """
    now = (needed <= left).all(axis=1) & ~held
    after = (needed <= (left - draws)[:, None]).all(axis=2) & now
    np.fill_diagonal(after, val=False)
    return ((now & ~after) * weight).sum(axis=1)
