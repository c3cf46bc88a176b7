"""Devices of one profile that may exclude one another, so that counters alone do not tell how many fit."""

import numpy as np

from kernels.types import Bits, Codes, Mask, Rows
from reconciler.inventory.occupancy import Occupancy
from reconciler.inventory.scopes import Exclusion


def may_clash(exclusion: Exclusion, occupancy: Occupancy, rows: Rows, profile: Codes) -> Mask:
    """Devices that another of the same profile and scope may keep out, or that it may keep out.

    Sound, not complete: a device without a clash can be held beside all others of its profile that can be
    had. One with a clash may go with some of them.

    rows (n,)     devices that can be had now
    profile (D,)
    ->   (n,)
    """
    clash = np.zeros(len(rows), dtype=np.bool_)
    assert occupancy.common is not None
    for k in range(exclusion.scopes.shape[1]):
        scopes = exclusion.scopes[rows, k]
        stating = np.flatnonzero((scopes >= 0) & exclusion.bound[rows])
        order = stating[np.lexsort((scopes[stating], profile[rows[stating]]))]
        if not len(order):
            continue
        own, kinds = scopes[order], profile[rows[order]]
        starts = np.flatnonzero(np.append(True, (own[1:] != own[:-1]) | (kinds[1:] != kinds[:-1])))
        sizes = np.diff(np.append(starts, len(order)))
        names = _all(exclusion.names[rows[order], k], starts) & occupancy.common[own[starts]]
        asked = np.bitwise_or.reduceat(exclusion.asks[rows[order], k], starts, axis=0)
        met = _all(exclusion.meets[rows[order], k], starts)
        bad = ~(names != 0).any(axis=1) | ((asked & ~met) != 0).any(axis=1)
        clash[order] |= np.repeat(bad & (sizes > 1), sizes)
    return clash


def _all(bits: Bits, starts: Rows) -> Bits:
    found: Bits = np.bitwise_and.reduceat(bits, starts, axis=0)
    return found
