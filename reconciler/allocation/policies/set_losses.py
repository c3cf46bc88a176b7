"""What else stops fitting when a device is taken. Computed once for each state of a counter set."""

from collections.abc import Callable, Collection, Mapping

import numpy as np
from msgspec import Struct

from kernels.fit import required
from kernels.types import Amounts, Mask, Rows
from reconciler.state.devices.encoding.vocabulary import CapacitySlot
from reconciler.state.devices.occupancy import Trail
from reconciler.state.devices.snapshot import Snapshot

WHOLE = 1000
"""Thousandths of one device"""


def left_of(names: tuple[str, ...], rows: Rows, snapshot: Snapshot) -> Amounts:
    """(n,) thousandths left of devices that are available; all of a device that is not shared.

    Of a shared device: the least over the named capacities, or over all without a name.
    """
    found: Amounts = np.full(len(rows), WHOLE, dtype=np.int64)
    sharing = np.flatnonzero(snapshot.occupancy.sharing[rows])
    if len(sharing):
        found[sharing] = _left_of_shared(names, rows[sharing], snapshot)
    return found


def _left_of_shared(names: tuple[str, ...], rows: Rows, snapshot: Snapshot) -> Amounts:
    """(n,) the same for devices that are held in shares; devices that are alike are evaluated once."""
    consumptions, shapes = snapshot.occupancy.consumptions, snapshot.fleet.vocabulary.shapes.values
    number, shape = snapshot.occupancy.consumption[rows], snapshot.fleet.codes["shape"][rows]
    states = list(zip(number.tolist(), shape.tolist(), strict=True))
    left = {
        (consumed, code): _thousandths(
            shapes[code] if code >= 0 else (), names, consumptions.values[consumed]
        )
        for consumed, code in set(states)
    }
    return np.array([left[state] for state in states], dtype=np.int64)


def _thousandths(slots: tuple[CapacitySlot, ...], names: tuple[str, ...], consumed: Mapping[str, int]) -> int:
    """The least part of the capacities that shares leave."""
    return min(
        [
            max(WHOLE - -(-consumed.get(slot.key, 0) * WHOLE // slot.value.nanos), 0)
            for slot in slots
            if slot.value.nanos > 0 and (not names or slot.key in names)
        ],
        default=WHOLE,
    )


def left_of_sets(rows: Rows, snapshot: Snapshot) -> Amounts:
    """(n,) thousandths left of all counters of the sets that a device draws from; 0 without any."""
    fleet = snapshot.fleet
    found: Amounts = np.zeros(len(rows), dtype=np.int64)
    for k in range(fleet.sets.shape[1]):
        sets = fleet.sets[rows, k]
        used, which = np.unique(sets[sets >= 0], return_inverse=True)
        if len(used):
            total = fleet.totals[used]
            share = left_of_set(snapshot.occupancy.left[used], total)
            found[sets >= 0] += share[which.reshape(-1)]
    return found


def left_of_set(left: Amounts, total: Amounts) -> Amounts:
    """(...,) thousandths left of all counters of a set, from (..., C) what is left and what there is."""
    scale = (total >> 40) + 1  # so that thousandths of large amounts do not overflow
    share = np.clip(left, 0, total) // scale * WHOLE // np.maximum(total // scale, 1)
    found: Amounts = np.where(total > 0, share, 0).sum(axis=-1)
    return found


FULLNESS = 2**16
"""More than the thousandths of all counters of most sets; only equal losses are ordered by fullness"""


class _Kind(Struct, eq=False):
    """Counter sets whose devices draw the same and have the same weights."""

    required: Amounts
    """(n, C) what must be left for each device"""
    draws: Amounts
    """(n, C) what each device takes"""
    weight: Amounts
    """(n,)"""


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

    def _evaluate(self, sets: Collection[int], snapshot: Snapshot) -> None:
        """Most sets are in one of few states: each state is evaluated once."""
        occupancy, known = snapshot.occupancy, dict[tuple[int, bytes], Amounts]()
        for number in sets:
            kind = self._kind_of.get(number)
            if kind is None:
                continue
            rows = self._fleet.by_set.of(number)
            left, held = occupancy.left[number], occupancy.held[rows]
            state = id(kind), left.tobytes() + held.tobytes()
            if state not in known:
                fullness = min(int(left_of_set(left, self._fleet.totals[number])), FULLNESS - 1)
                lost = losses_of(kind.required, kind.draws, kind.weight, left, held)
                known[state] = lost * FULLNESS + fullness
            self.of_row[rows] = known[state]


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
