"""What is free in counter sets, and which devices still fit."""

import numpy as np

from kernels.types import Amounts, Codes, Mask

NOTHING_REQUIRED = np.iinfo(np.int64).min
GRID = 2
"""Pairs of draw and set, per device entry, up to which testing every pair is faster"""

MOST_ANSWERS = 1 << 12
"""Answers that are remembered for one set; an A100 can leave 2,319 different amounts"""


def fits(free: Amounts, table: Amounts, sets: Codes, draws: Codes) -> Mask:
    """Devices that could be allocated next. Each is tested on its own.

    Equal draws are tested once per set: a tenth of the work in a fleet of equal machines.

    free  (S, C)  free amounts; negative where a set is over-committed
    table (P, C)  distinct draws
    sets  (D, K)  sets that each device draws from, -1 for none
    draws (D, K)  row of `table` for each of those sets
    ->    (D,)    a device that draws nothing from an exhausted counter fits
    """
    if not 0 < len(table) * len(free) <= GRID * sets.size:
        return fits_gathered(free, table, sets, draws)
    fine = _grid(free, table).ravel()
    ok = np.ones(len(sets), dtype=np.bool_)
    for k in range(sets.shape[1]):
        places = draws[:, k].astype(np.intp) * len(free) + sets[:, k]
        ok &= fine.take(places, mode="clip") | (sets[:, k] < 0)
    return ok


def _grid(free: Amounts, table: Amounts) -> Mask:
    """(P, S) whether each draw fits into each set."""
    available = np.ascontiguousarray(free.T)
    wanted = np.where(table == 0, NOTHING_REQUIRED, table).T
    fine = np.ones((len(table), len(free)), dtype=np.bool_)
    one = np.empty_like(fine)
    for c in np.flatnonzero(table.any(axis=0)).tolist():
        fine &= np.less_equal(wanted[c, :, None], available[c], out=one)
    return fine


def fits_gathered(free: Amounts, table: Amounts, sets: Codes, draws: Codes) -> Mask:
    """The same as `fits`, from the amounts of each device. Faster for few devices with many draws."""
    ok = np.ones(sets.shape[0], dtype=np.bool_)
    for k in range(sets.shape[1]):
        used = sets[:, k] >= 0
        if not used.any():
            continue
        wanted = table.take(draws[:, k], axis=0, mode="clip")
        available = free.take(sets[:, k], axis=0, mode="clip")
        ok &= ~used | ((wanted <= available) | (wanted == 0)).all(axis=1)
    return ok


def held_back(free: Amounts, kept: Amounts) -> Amounts:
    """What remains for others while some of it is kept for somebody.

    free (S, C)  free amounts; negative where a set is over-committed
    kept (S, C)  amounts that are kept, of which some may not be free yet; never negative
    ->   (S, C)  at least 0 where something is kept, unless `free` is below; as `free` elsewhere
    """
    return np.minimum(free, np.maximum(free - kept, 0))


def required(table: Amounts, draws: Codes) -> Amounts:
    """What must be free in its set for each device. The devices draw from one set only.

    table (P, C)  distinct draws
    draws (n,)    row of `table` for each device
    ->    (n, C)  `NOTHING_REQUIRED` where the device draws nothing. Read-only
    """
    needed = table[draws]
    needed[needed == 0] = NOTHING_REQUIRED
    needed.setflags(write=False)
    return needed


def fits_required(free: Amounts, needed: Amounts) -> Mask:
    """Devices that could be allocated next: `fits` for devices with one set each, fast when repeated.

    free   (C,) or (n, C)  free amounts of the common set, or of each device's set
    needed (n, C)          see `required`
    ->     (n,)
    """
    found: Mask = np.logical_and.reduce(needed <= free, axis=1)
    return found


class Fitting:
    """Which devices of one counter set fit, by what is free in it.

    Remembers its answers: partitions of one parent leave few different amounts. Not for several threads.
    """

    def __init__(self, needed: Amounts) -> None:
        """Of devices that draw `needed` (n, C): see `required`."""
        self._needed = needed
        self._answers: dict[bytes, Mask] = {}

    def of(self, free: Amounts) -> Mask:
        """(n,) `fits_required` for what is free (C,). Read-only."""
        key = free.tobytes()
        known = self._answers.get(key)
        if known is None:
            if len(self._answers) >= MOST_ANSWERS:
                self._answers.clear()
            known = self._answers[key] = fits_required(free, self._needed)
            known.setflags(write=False)
        return known


def total_draw(size: int, table: Amounts, sets: Codes, draws: Codes) -> Amounts:
    """The sum of all devices' draws, by set.

    size          number of sets, S
    table (P, C)  distinct draws
    sets  (D, K)  sets that each device draws from, -1 for none
    draws (D, K)  row of `table` for each of those sets
    ->    (S, C)
    """
    total = np.zeros((size, table.shape[1]), dtype=np.int64)
    for k in range(sets.shape[1]):
        used = sets[:, k] >= 0
        np.add.at(total, sets[used, k], table[draws[used, k]])
    return total


def draw_one(free: Amounts, table: Amounts, sets: Codes, draws: Codes) -> Amounts:
    """What is free after one device has drawn. `free` itself is unchanged.

    free  (S, C)
    table (P, C)
    sets  (K,)   sets of that device, -1 for none
    draws (K,)
    ->    (S, C)
    """
    after = free.copy()
    for k in range(sets.shape[0]):
        if sets[k] >= 0:
            after[sets[k]] -= table[draws[k]]
    return after
