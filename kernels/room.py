"""Which places still have room for what is wanted of several resources at once.

Axes here: R resources, N places. One resource lies in one piece, since few of them are ever asked for.
"""

import numpy as np

from kernels.types import Amounts, Mask


def has_room(total: Amounts, used: Amounts, wanted: Amounts, waived: Mask) -> Mask:
    """Places that could take one more.

    total  (R, N)
    used   (R, N)  may exceed the total
    wanted (R,)    what is not wanted is not looked at, also where it is over-used
    waived (R,)    resources that need not come from the place where its total is zero
    ->     (N,)
    """
    ok = np.ones(total.shape[1], dtype=np.bool_)
    for r in np.flatnonzero(wanted).tolist():
        ok &= ~_short(total[r], used[r], int(wanted[r]), bool(waived[r]))
    return ok


def shortages(total: Amounts, used: Amounts, wanted: Amounts, waived: Mask) -> Mask:
    """(R, N) which resource each place is short of, for what `has_room` refuses."""
    found = np.zeros(total.shape, dtype=np.bool_)
    for r in np.flatnonzero(wanted).tolist():
        found[r] = _short(total[r], used[r], int(wanted[r]), bool(waived[r]))
    return found


def _short(total: Amounts, used: Amounts, wanted: int, waived: bool) -> Mask:
    # The difference of two amounts that are not negative cannot overflow; their sum could.
    short: Mask = total - used < wanted
    return short & (total != 0) if waived else short
