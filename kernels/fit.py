"""What is left in counter sets, and which devices still fit into it."""

import numpy as np

from kernels.types import Amounts, Codes, Mask

NO_FLOOR = np.iinfo(np.int64).min
GRID = 2
"""Pairs of a draw and a set, for each device, up to which judging all pairs pays"""


def fits(left: Amounts, table: Amounts, sets: Codes, draws: Codes) -> Mask:
    """Devices that could be taken next, each judged on its own.

    Equal draws are judged once a set, which is a tenth of the work in a fleet of equal machines.

    left  (S, C)  what each set still has; negative where it is over-committed
    table (P, C)  distinct draws
    sets  (D, K)  the sets each device draws from, -1 for none
    draws (D, K)  row of `table` for each of them
    ->    (D,)    a device that draws nothing from an exhausted counter fits
    """
    if not 0 < len(table) * len(left) <= GRID * sets.size:
        return fits_one_by_one(left, table, sets, draws)
    fine = _grid(left, table).ravel()
    ok = np.ones(len(sets), dtype=np.bool_)
    for k in range(sets.shape[1]):
        places = draws[:, k].astype(np.intp) * len(left) + sets[:, k]
        ok &= fine.take(places, mode="clip") | (sets[:, k] < 0)
    return ok


def _grid(left: Amounts, table: Amounts) -> Mask:
    """(P, S) whether each draw fits into each set."""
    there = np.ascontiguousarray(left.T)
    wanted = np.where(table == 0, NO_FLOOR, table).T
    fine = np.ones((len(table), len(left)), dtype=np.bool_)
    one = np.empty_like(fine)
    for c in np.flatnonzero(table.any(axis=0)).tolist():
        fine &= np.less_equal(wanted[c, :, None], there[c], out=one)
    return fine


def fits_one_by_one(left: Amounts, table: Amounts, sets: Codes, draws: Codes) -> Mask:
    """The same as `fits`, with the amounts of every device gathered; for few devices of many draws."""
    ok = np.ones(sets.shape[0], dtype=np.bool_)
    for k in range(sets.shape[1]):
        used = sets[:, k] >= 0
        if not used.any():
            continue
        wanted = table.take(draws[:, k], axis=0, mode="clip")
        there = left.take(sets[:, k], axis=0, mode="clip")
        ok &= ~used | ((wanted <= there) | (wanted == 0)).all(axis=1)
    return ok


def floor(table: Amounts, draws: Codes) -> Amounts:
    """How low a set may stand for each of some devices that draw from it alone.

    table (P, C)  distinct draws
    draws (n,)    row of `table` for each device
    ->    (n, C)  the least int64 where it draws nothing. Read-only
    """
    lowest = table[draws]
    lowest[lowest == 0] = NO_FLOOR
    lowest.setflags(write=False)
    return lowest


def fits_floor(left: Amounts, lowest: Amounts) -> Mask:
    """Devices that could be taken next: `fits` for a few that draw from one set each, again and again.

    left   (C,) or (n, C)  what the set still has, of all of them or of each
    lowest (n, C)          see `floor`
    ->     (n,)
    """
    found: Mask = np.logical_and.reduce(lowest <= left, axis=1)
    return found


def drawn(size: int, table: Amounts, sets: Codes, draws: Codes) -> Amounts:
    """What some devices draw together from each set.

    size          number of sets, S
    table (P, C)  distinct draws
    sets  (D, K)  the sets each of the devices draws from, -1 for none
    draws (D, K)  row of `table` for each of them
    ->    (S, C)
    """
    total = np.zeros((size, table.shape[1]), dtype=np.int64)
    for k in range(sets.shape[1]):
        used = sets[:, k] >= 0
        np.add.at(total, sets[used, k], table[draws[used, k]])
    return total


def take(left: Amounts, table: Amounts, sets: Codes, draws: Codes) -> Amounts:
    """What is left after one device has drawn; `left` itself is unchanged.

    left  (S, C)
    table (P, C)
    sets  (K,)   of that device
    draws (K,)
    ->    (S, C)
    """
    after = left.copy()
    for k in range(sets.shape[0]):
        if sets[k] >= 0:
            after[sets[k]] -= table[draws[k]]
    return after
