"""Which places have room for the wanted amounts of several resources at once.

Axes here: R resources, N places. The values of one resource are contiguous: few resources are ever wanted.
"""

import numpy as np

from kernels.types import Amounts, Mask


def has_room(total: Amounts, used: Amounts, wanted: Amounts, waived: Mask) -> Mask:
    """Places with room for the wanted amounts.

    total  (R, N)
    used   (R, N)  may exceed the total
    wanted (R,)    a resource that is not wanted is not checked, even where it is over-used
    waived (R,)    resources that are not checked at places where their total is zero
    ->     (N,)
    """
    ok = np.ones(total.shape[1], dtype=np.bool_)
    for r in np.flatnonzero(wanted).tolist():
        ok &= ~_short(total[r], used[r], int(wanted[r]), bool(waived[r]))
    return ok


def shortages(total: Amounts, used: Amounts, wanted: Amounts, waived: Mask) -> Mask:
    """(R, N) the resources that each place is short of. The arguments are those of `has_room`."""
    found = np.zeros(total.shape, dtype=np.bool_)
    for r in np.flatnonzero(wanted).tolist():
        found[r] = _short(total[r], used[r], int(wanted[r]), bool(waived[r]))
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


def _short(total: Amounts, used: Amounts, wanted: int, waived: bool) -> Mask:
    # The difference of two non-negative amounts cannot overflow; their sum could.
    short: Mask = total - used < wanted
    return short & (total != 0) if waived else short
