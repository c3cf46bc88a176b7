"""How full a fleet is: one definition for the page, `top`, `modes` and their words.

A physical device is a counter set, or a device that draws from none. Its **use** is the share of it that
claims hold: of the counters that its partitions are cut by. It is **full** if nothing that is published of
it still fits. What is free and unusable is stranded, see `measure`.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernels.groups import distinct
from kernels.types import Amounts, Mask, Rows
from reconciler.analysis.capacity.layout import families
from reconciler.state.caches import Cache, share
from reconciler.state.devices.counters import Scale
from reconciler.state.devices.fleet import Fleet


@lru_cache(maxsize=4096)
def _cut_by(scale: Scale) -> tuple[int, ...]:
    """The counters that say how much of a set is used: numbered slices, those of memory first; else memory;
    else the first one. Scarce extras, such as decoders, are not the device.
    """
    names, of_counter = families(scale)
    if not names:
        return ()
    size = [of_counter.count(at) for at in range(len(names))]
    best = max(
        range(len(names)),
        key=lambda at: (size[at] > 1, "memory" in names[at], "slice" in names[at], size[at], -at),
    )
    return tuple(number for number, family in enumerate(of_counter) if family == best)


def _cutting(fleet: Fleet) -> Mask:
    found = np.zeros(fleet.totals.shape, dtype=np.bool_)
    for number, columns in enumerate(fleet.set_columns):
        found[number, list(_cut_by(columns.scale))] = True
    return found


cutting = Cache(_cutting, on_fork=share).of
"""Of a fleet: (S, C) the counters of each set that its partitions are cut by"""


def use_of_sets(totals: Amounts, left: Amounts, cut: Mask) -> NDArray[np.float64]:
    """The used share of each counter set, 0 to 1.

    totals, left (S, C) in the units of each counter
    cut          (S, C) see `cutting`
    ->           (S,)
    """
    published = np.where(cut, totals, 0).sum(axis=1, dtype=np.float64)
    consumed = np.where(cut, totals - left, 0).sum(axis=1, dtype=np.float64)
    used = np.divide(consumed, published, out=np.zeros_like(published), where=published > 0)
    return np.clip(used, 0.0, 1.0)


def share_of_devices(fleet: Fleet) -> NDArray[np.float64]:
    """(D,) the share of a physical device that each device is: what it draws of the counters that cut it. 1
    without counters.
    """
    drawn, published = np.zeros((2, fleet.size))
    cut = cutting(fleet)
    of_set = np.where(cut, fleet.totals, 0).sum(axis=1)
    for sets, draws in zip(fleet.sets.T, fleet.draws.T, strict=True):
        rows = np.flatnonzero(sets >= 0)
        drawn[rows] += np.where(cut[sets[rows]], fleet.table[draws[rows]], 0).sum(axis=1)
        published[rows] += of_set[sets[rows]]
    return np.divide(drawn, published, out=(published == 0).astype(np.float64), where=published > 0)


class PhysicalUse(NamedTuple):
    """The use of P physical devices: counter sets, then devices without counters. See above."""

    sets: Rows
    """(s,)"""
    alone: Rows
    """(P - s,)"""
    use: NDArray[np.float64]
    """(P,) the share that claims hold, 0 to 1"""
    full: Mask
    """(P,)"""

    def of(self, of_set: Rows, of_device: Rows) -> Rows:
        """(P,) the group of each, from those of all counter sets and devices."""
        return np.concatenate([of_set[self.sets], of_device[self.alone]])


def physical_devices(fleet: Fleet, counted: Mask) -> tuple[Rows, Rows]:
    """The counter sets that counted (D,) devices draw from, and the devices that draw from none."""
    drawing = fleet.sets[counted]
    alone = counted & (fleet.sets < 0).all(axis=1)
    return distinct(drawing[drawing >= 0]).astype(np.intp), np.flatnonzero(alone)


def physical_use(fleet: Fleet, counted: Mask, taken: Mask, fitting: Mask, left: Amounts) -> PhysicalUse:
    """The use of all physical devices.

    counted (D,)   devices that count
    taken   (D,)   those that claims hold, exclusively or in shares
    fitting (D,)   those that still fit
    left    (S, C) in the units of each counter
    """
    sets, alone = physical_devices(fleet, counted)
    open_ = np.zeros(len(fleet.totals) + 1, dtype=np.bool_)
    open_[fleet.sets[fitting].ravel()] = True  # -1 is the last one
    use = np.concatenate([use_of_sets(fleet.totals, left, cutting(fleet))[sets], taken[alone]])
    return PhysicalUse(sets, alone, use, np.concatenate([~open_[sets], ~fitting[alone]]))
