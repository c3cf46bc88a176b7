"""Shares of things: what is missing is not checked, subtraction clips at zero."""

import numpy as np

from kernels.types import Amounts, Mask, Rows


def unused(total: Amounts, used: Amounts) -> Amounts:
    """What is free of each thing.

    total (R, K)
    used  (R, K)  may exceed the total
    ->    (R, K)  never negative
    """
    return np.maximum(total - used, 0)


def share_fits(free: Amounts, reported: Mask, some: Mask, wanted: Amounts) -> Mask:
    """Things that could give a share, each judged on its own.

    free     (R, K)  fastest where each column lies in one piece
    reported (R, K)  whether the thing has such a column at all; if not, it is not checked
    some     (R,)    whether anything at all is free; a thing of which nothing is gives no share
    wanted   (K,)    zero is met by anything
    ->       (R,)
    """
    ok = some.copy()
    for k in np.flatnonzero(wanted):
        ok &= (free[:, k] >= wanted[k]) | ~reported[:, k]
    return ok


def enough(ok: Mask, owners: Rows, needed: Amounts) -> Mask:
    """Owners that have at least as many fitting things as they need.

    ok     (R,)
    owners (R,)  below the length of `needed`
    needed (N,)
    ->     (N,)
    """
    return np.bincount(owners[ok], minlength=len(needed)) >= needed


def group_held(held: Mask, groups: Rows, size: int) -> Mask:
    """Things whose group holds something, themselves included.

    held   (R,)
    groups (R,)  below `size`; -1 is a group of its own
    ->     (R,)
    """
    inside = groups >= 0
    busy = np.zeros(size, dtype=np.bool_)
    busy[groups[held & inside]] = True
    result = held.copy()
    result[inside] = busy[groups[inside]]
    return result
