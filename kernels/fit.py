"""What is free in counter sets and on places, which devices still fit, and which are taken in turn."""

from typing import NamedTuple

import numpy as np

from kernels.groups import Inverse
from kernels.types import Amounts, Codes, Mask, Rows

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


def taken_in_turn(free: Amounts, table: Amounts, sets: Codes, draws: Codes) -> Mask:
    """The devices that are taken, if each takes what it draws where that is still free.

    A device that does not fit in its turn fits in no later one, because nothing is released. So these are the
    devices that claims of one device each get, one claim after the other.

    free  (S, C)  free amounts. Not written to
    table (P, C)  distinct draws
    sets  (n,)    the one set that each device draws from, -1 for none
    draws (n,)    row of `table` for that set
    ->    (n,)
    """
    taken: Mask = sets < 0
    order = np.flatnonzero(~taken)
    order = order[np.argsort(sets[order], kind="stable")]
    used, first, of_row, sizes = np.unique(
        sets[order], return_index=True, return_inverse=True, return_counts=True
    )
    left = free[used]
    turn = np.arange(len(order)) - first[of_row]
    # Sets do not influence each other, so the first devices of all sets have their turn at once.
    by_turn = np.argsort(turn, kind="stable")
    end = 0
    for size in np.bincount(turn).tolist() if len(sizes) else ():
        places = by_turn[end : end + size]
        end += size
        rows, of_set = order[places], of_row[places]
        fine = fits_required(left[of_set], required(table, draws[rows]))
        taken[rows] = fine
        left[of_set[fine]] -= table[draws[rows[fine]]]
    return taken


def groups_in_turn(groups: Rows, count: int) -> Rows:
    """The rows that are taken, if `count` rows of one group are taken at a time.

    Each time the first row wins whose group has enough rows from there on, with the next rows of that group.

    groups (n,)        group of each row
    count              at least 1
    ->     (m, count)  rows, each at most once; rising from left to right, and in the first column
    """
    order = np.argsort(groups, kind="stable")
    same = np.flatnonzero(np.diff(groups[order], prepend=-1, append=-1))
    sizes = np.diff(same)
    number = np.arange(len(order)) - np.repeat(same[:-1], sizes)
    taken = order[number < np.repeat(sizes // count * count, sizes)].reshape(-1, count)
    return taken[np.argsort(taken[:, 0], kind="stable")]


class Shelf(NamedTuple):
    """D devices that draw from S counter sets with C counters. Taking a device writes `open` and `left`."""

    open: Mask
    """(D,) devices that could be taken next, each judged on its own"""
    left: Amounts
    """(S, C) what is left of the sets"""
    table: Amounts
    """(P, C) distinct draws"""
    sets: Codes
    """(D, K) sets that each device draws from, -1 for none"""
    draws: Codes
    """(D, K) row of `table` for each of those sets"""
    by_set: Inverse
    """Set -> the devices that draw from it"""

    def copy(self) -> "Shelf":
        """The same, to be written independently."""
        return self._replace(open=self.open.copy(), left=self.left.copy())


def take_in_order(shelf: Shelf, rows: Rows, most: int) -> list[int]:
    """Take the first devices that fit, at most so many. Returns their rows in the order of `rows`.

    rows (n,)  distinct devices, in the order in which they are tried
    """
    rows = rows[shelf.open[rows]]
    if not shelf.sets.shape[1] or not (shelf.sets[rows] >= 0).any():
        rows = rows[:most]
        shelf.open[rows] = False
        return [int(row) for row in rows]
    taken: list[int] = []
    for row in rows.tolist():
        if len(taken) >= most:
            break
        if shelf.open[row]:
            _take(shelf, row)
            taken.append(row)
    return taken


def _take(shelf: Shelf, row: int) -> None:
    """Take one device; devices of its sets that do not fit any more are closed."""
    shelf.open[row] = False
    drawn = [
        pair for pair in zip(shelf.sets[row].tolist(), shelf.draws[row].tolist(), strict=True) if pair[0] >= 0
    ]
    for number, draw in drawn:
        shelf.left[number] -= shelf.table[draw]
    for number, _ in drawn:
        near = shelf.by_set.of(number)
        near = near[shelf.open[near]]
        if len(near):
            # All that is open fits into its other sets, of which nothing was taken.
            wanted = shelf.table[shelf.draws[near]]
            short = (wanted > shelf.left[number]) & (wanted != 0)
            short &= (shelf.sets[near] == number)[:, :, None]
            shelf.open[near[short.any(axis=(1, 2))]] = False


def shortages(total: Amounts, used: Amounts, wanted: Amounts, waived: Mask) -> Mask:
    """The resources that each place is short of.

    total  (R, N)
    used   (R, N)  may exceed the total
    wanted (R,)    a resource that is not wanted is not checked, even where it is over-used
    waived (R,)    resources that are not checked at places where their total is zero
    ->     (R, N)

    R resources, N places. The values of one resource are contiguous: few resources are ever wanted.
    """
    found = np.zeros(total.shape, dtype=np.bool_)
    for r in np.flatnonzero(wanted).tolist():
        # The difference of two non-negative amounts cannot overflow; their sum could.
        found[r] = total[r] - used[r] < wanted[r]
        if waived[r]:
            found[r] &= total[r] != 0
    return found


def copies(free: Amounts, wanted: Amounts) -> Amounts:
    """How many times each place has room for the wanted amounts.

    free   (R, N)  what is left; negative where a resource is over-used
    wanted (R,)    a resource that is not wanted is not checked
    ->     (N,)    at least 0; the largest integer if nothing is wanted
    """
    found = np.full(free.shape[1], np.iinfo(np.int64).max, dtype=np.int64)
    for r in np.flatnonzero(wanted).tolist():
        np.minimum(found, free[r] // wanted[r], out=found)
    return np.maximum(found, 0, out=found)
