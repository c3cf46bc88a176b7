"""Devices of one profile that may exclude each other, so counters alone do not tell how many fit."""

import numpy as np

from kernels.types import Bits, Codes, Mask, Rows
from reconciler.state.devices.exclusion.scopes import Exclusion
from reconciler.state.devices.occupancy.occupancy import Occupancy


def may_exclude(exclusion: Exclusion, occupancy: Occupancy, rows: Rows, profile: Codes) -> Mask:
    """Devices that may exclude, or be excluded by, another device of the same profile and scope.

    A device that is not marked can be allocated together with all other available devices of its profile. A
    marked device may still be compatible with some of them.

    rows (n,)     available devices
    profile (D,)
    ->   (n,)
    """
    clash = np.zeros(len(rows), dtype=np.bool_)
    assert occupancy.common is not None
    # One entry per device and scope: devices may have the same scope in different columns.
    member, k = np.nonzero((exclusion.scopes[rows] >= 0) & exclusion.bound[rows, None])
    order = np.lexsort((exclusion.scopes[rows[member], k], profile[rows[member]]))
    if not len(order):
        return clash
    member, k = member[order], k[order]
    device = rows[member]
    own, kinds = exclusion.scopes[device, k], profile[device]
    starts = np.flatnonzero(np.append(True, (own[1:] != own[:-1]) | (kinds[1:] != kinds[:-1])))
    sizes = np.diff(np.append(starts, len(order)))
    names = _all(exclusion.names[device, k], starts) & occupancy.common[own[starts]]
    asked = np.bitwise_or.reduceat(exclusion.asks[device, k], starts, axis=0)
    met = _all(exclusion.meets[device, k], starts)
    bad = ~(names != 0).any(axis=1) | ((asked & ~met) != 0).any(axis=1)
    clash[member[np.repeat(bad & (sizes > 1), sizes)]] = True
    return clash


def _all(bits: Bits, starts: Rows) -> Bits:
    found: Bits = np.bitwise_and.reduceat(bits, starts, axis=0)
    return found
