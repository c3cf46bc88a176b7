"""Which devices are taken, one after the other, where nothing is released in between."""

import numpy as np

from kernels.fit import fits_required, required
from kernels.types import Amounts, Codes, Mask, Rows


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
