"""How much is left of devices and counter sets, in thousandths, as columns."""

from collections.abc import Mapping

import numpy as np

from kernels.types import Amounts, Rows
from reconciler.allocation.policies.shares import Remembered, shares_of
from reconciler.state.caches import Cache
from reconciler.state.devices.encoding.vocabulary import CapacitySlot
from reconciler.state.devices.pools.fleet import Fleet
from reconciler.state.devices.snapshot.snapshot import Snapshot

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


_LEFT: Cache[Fleet, dict[tuple[str, ...], Remembered[tuple[int, int], int]]] = Cache(lambda _: {})


def _left_of_shared(names: tuple[str, ...], rows: Rows, snapshot: Snapshot) -> Amounts:
    """(n,) the same for devices that are held in shares. Remembered by what is consumed."""
    consumptions, shapes = snapshot.occupancy.consumptions, snapshot.fleet.vocabulary.shapes.values
    known = _LEFT.of(snapshot.fleet).setdefault(names, Remembered()).of(consumptions)
    number, shape = shares_of(rows, snapshot)
    states = list(zip(number.tolist(), shape.tolist(), strict=True))
    for state in set(states) - known.keys():
        slots = shapes[state[1]] if state[1] >= 0 else ()
        known[state] = _thousandths(slots, names, consumptions.values[state[0]])
    return np.array([known[state] for state in states], dtype=np.int64)


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
