"""What is left in counter sets, and which devices still fit into it."""

import numpy as np

from kernels.types import Amounts, Codes, Mask

NO_FLOOR = np.iinfo(np.int64).min


def fits(left: Amounts, table: Amounts, sets: Codes, draws: Codes) -> Mask:
    """Devices that could be taken next, each judged on its own.

    left  (S, C)  what each set still has; negative where it is over-committed
    table (P, C)  distinct draws
    sets  (D, K)  the sets each device draws from, -1 for none
    draws (D, K)  row of `table` for each of them
    ->    (D,)    a device that draws nothing from an exhausted counter fits
    """
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
