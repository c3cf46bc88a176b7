"""The requests of a demand with the weights that `least-loss` gives them."""

from math import lcm

import numpy as np
from msgspec import Struct

from kernels.types import Amounts
from reconciler.allocation.dra.request_options import RequestKey, RequestOption
from reconciler.allocation.dra.static_match import match_in_fleet
from reconciler.allocation.policies.compiled_demand import taking
from reconciler.allocation.policies.demand import Demand
from reconciler.allocation.policies.room_left import WHOLE
from reconciler.state.caches import Cache, share
from reconciler.state.devices.pools.fleet import Fleet
from reconciler.state.devices.snapshot.snapshot import Snapshot

HEAVIEST = 2**14
"""Weights are scaled to at most this"""
MOST_DEVICES = 8
"""Shapes that ask for more devices count as shapes of so many"""
COUNTS = lcm(*range(1, MOST_DEVICES + 1))
"""Weights are multiples of it, so that each device of a shape is a whole part of its weight"""


class Wanted(Struct, frozen=True):
    """One request of a shape of the demand."""

    option: RequestOption
    count: int
    """Devices, at most `MOST_DEVICES`"""
    weight: int
    """At most `HEAVIEST` for each shape that asks for it"""

    @property
    def of_device(self) -> int:
        """The part of the weight, times `COUNTS`, that each of its devices has."""
        return self.weight * (COUNTS // self.count)


def requests_of(demand: Demand, snapshot: Snapshot) -> tuple[Wanted, ...]:
    """All distinct requests. One is worth its size in each shape, unless the demand says otherwise."""
    values = [
        (slot.options[0], shape.value or _size(slot.options[0], snapshot))
        for shape in demand.shapes
        for slot in shape.slots(snapshot)
    ]
    heaviest = max((value for _, value in values), default=1)
    found: dict[tuple[RequestKey, int], Wanted] = {}
    for option, value in values:
        count = min(max(option.source.wanted, 1), MOST_DEVICES)
        weight = max(value * HEAVIEST // heaviest, 1)
        # Shapes differ in the CPU of their pods more often than in their requests.
        known = found.get((option.key, count))
        found[option.key, count] = Wanted(option, count, weight + (known.weight if known else 0))
    return tuple(found.values())


def _size(option: RequestOption, snapshot: Snapshot) -> int:
    """Thousandths of all devices that the request takes; at least 1."""
    one = taking(option, snapshot)
    units = one.units
    if not one.plain:
        units = int(sizes(snapshot.fleet)[match_in_fleet(option, snapshot).suitable].max(initial=1))
    return max(units, 1) * max(option.source.wanted, 1)


def _sizes(fleet: Fleet) -> Amounts:
    """(D,) thousandths of its sets that a device draws, the mean over their counters; 1000 without sets."""
    found: Amounts = np.where((fleet.sets >= 0).any(axis=1), 0, WHOLE)
    if not len(fleet.totals):
        return found
    # Most sets publish the same: each draw is evaluated once for all of them.
    totals, kinds = np.unique(fleet.totals, axis=0, return_inverse=True)
    kind = kinds.reshape(-1).astype(np.int64)
    for k in range(fleet.sets.shape[1]):
        rows = np.flatnonzero(fleet.sets[:, k] >= 0)
        pairs = fleet.draws[rows, k].astype(np.int64) << 32 | kind[fleet.sets[rows, k]]
        pairs, which = np.unique(pairs, return_inverse=True)
        total = totals[pairs & 0xFFFFFFFF]
        scale = (total >> 40) + 1  # so that thousandths of large amounts do not overflow
        drawn = np.minimum(fleet.table[pairs >> 32], total) // scale * WHOLE // np.maximum(total // scale, 1)
        mean = drawn.sum(axis=1) // np.maximum(np.count_nonzero(total, axis=1), 1)
        found[rows] += mean[which.reshape(-1)]
    return np.maximum(found, 1)


_SIZES = Cache(_sizes, on_fork=share)


def sizes(fleet: Fleet) -> Amounts:
    """(D,) thousandths of its sets that a device draws. Cached by fleet."""
    return _SIZES.of(fleet)
