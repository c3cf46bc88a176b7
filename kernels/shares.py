"""Shares of things: what is missing is not checked, subtraction clips at zero."""

from collections.abc import Sequence

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


def most_together(ok: Mask, groups: Rows, owners: Rows, size: int) -> Amounts:
    """How many fitting things each owner has in that of its groups which has most of them.

    ok     (R,)
    groups (R,)  the first thing of each thing's group, all of one owner; -1 is in none
    owners (R,)  below `size` where `ok`
    ->     (size,)
    """
    counts = _by_group(ok, groups)
    some = np.flatnonzero(counts)
    result = np.zeros(size, dtype=np.int64)
    np.maximum.at(result, owners[some], counts[some])
    return result


def served_together(
    lead: Mask, beside: Sequence[Mask], groups: Rows, owners: Rows, needed: Amounts, wanted: Sequence[Amounts]
) -> Mask:
    """Owners that may have enough leading things, each in a group with one of every further kind.

    It is a bound: who is left out has not enough; who is not may still have nothing that goes together.

    lead, beside (R,)  leading things that fit, and for each further kind those that do
    groups       (R,)  the first thing of each thing's group, all of one owner; -1 is in none
    owners       (R,)  below the length of `needed` where anything fits
    needed       (N,)  leading things
    wanted       (N,)  for each further kind how many, in the groups of the leading ones
    ->           (N,)
    """
    counts = [_by_group(ok, groups) for ok in (lead, *beside)]
    whole = np.flatnonzero(np.logical_and.reduce([count > 0 for count in counts]))
    found = np.ones(len(needed), dtype=np.bool_)
    for count, least in zip(counts, (needed, *wanted), strict=True):
        found &= np.bincount(owners[whole], weights=count[whole], minlength=len(needed)) >= least
    return found


def _by_group(ok: Mask, groups: Rows) -> Amounts:
    """(R,) things of each group that are ok, where its first thing stands."""
    return np.bincount(groups[ok & (groups >= 0)], minlength=len(groups))


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
