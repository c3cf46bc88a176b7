"""How full a fleet is: one definition for the page, `top`, `modes` and their words.

A physical device is a counter set, or a device that draws from none. Its **use** is the share of it that
claims hold: of the counters that its partitions are cut by. It is **full** if nothing that is published of
it still fits. What is free and unusable is stranded, see `measure`.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from kernels.groups import distinct
from kernels.types import Amounts, Mask
from reconciler.analysis.capacity.layout import families
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


def cutting(fleet: Fleet) -> Mask:
    """(S, C) the counters of each set that its partitions are cut by."""
    found = np.zeros(fleet.totals.shape, dtype=np.bool_)
    for number, columns in enumerate(fleet.set_columns):
        found[number, list(_cut_by(columns.scale))] = True
    return found


def use_of_sets(totals: Amounts, left: Amounts, cut: Mask) -> NDArray[np.float64]:
    """The used share of each counter set, 0 to 1.

    totals, left (S, C) in the units of each counter
    cut          (S, C) see `cutting`
    ->           (S,)
    """
    published = np.where(cut, totals, 0).sum(axis=1, dtype=np.float64)
    consumed = np.where(cut, totals - left, 0).sum(axis=1, dtype=np.float64)
    share = np.divide(consumed, published, out=np.zeros_like(published), where=published > 0)
    return np.clip(share, 0.0, 1.0)


def share_of_devices(fleet: Fleet) -> NDArray[np.float64]:
    """(D,) the share of a physical device that each device is: what it draws of the counters that cut it. 1
    without counters.
    """
    drawn, published = np.zeros((2, fleet.size))
    cut = cutting(fleet)
    for sets, draws in zip(fleet.sets.T, fleet.draws.T, strict=True):
        rows = np.flatnonzero(sets >= 0)
        drawn[rows] += np.where(cut[sets[rows]], fleet.table[draws[rows]], 0).sum(axis=1)
        published[rows] += np.where(cut, fleet.totals, 0).sum(axis=1)[sets[rows]]
    return np.divide(drawn, published, out=(published == 0).astype(np.float64), where=published > 0)


def physical_devices(fleet: Fleet, counted: Mask) -> int:
    """The number of physical devices that counted (D,) devices are or draw from."""
    drawing = fleet.sets[counted]
    alone = int((drawing < 0).all(axis=1).sum())
    return alone + len(distinct(drawing[drawing >= 0]))
