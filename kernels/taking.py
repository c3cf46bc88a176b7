"""Which devices are taken if each in turn is taken where it still fits."""

import numpy as np

from kernels.fit import fits_required, required
from kernels.types import Amounts, Codes, Mask


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
