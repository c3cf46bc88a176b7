"""Devices that are shared in parts, and sets of devices of which overlapping ones exclude each other.

A resource that a device does not report is not checked; subtraction clips at zero.
"""

from collections.abc import Sequence

import numpy as np

from kernels.groups import distinct
from kernels.types import Amounts, Mask, Rows


def unused(total: Amounts, used: Amounts) -> Amounts:
    """The free amount of each resource of each device.

    total (R, K)
    used  (R, K)  may exceed the total
    ->    (R, K)  never negative
    """
    return np.maximum(total - used, 0)


def share_fits(free: Amounts, reported: Mask, some: Mask, wanted: Amounts) -> Mask:
    """Devices that can provide a share. Each is tested on its own.

    free     (R, K)  fastest where each column is contiguous
    reported (R, K)  whether the device reports the resource; otherwise it is not checked
    some     (R,)    whether any resource is free; a fully used device provides no share
    wanted   (K,)    zero always fits
    ->       (R,)
    """
    ok = some.copy()
    for k in np.flatnonzero(wanted):
        ok &= (free[:, k] >= wanted[k]) | ~reported[:, k]
    return ok


def enough(ok: Mask, owners: Rows, needed: Amounts) -> Mask:
    """Owners that have at least as many fitting devices as they need.

    ok     (R,)
    owners (R,)  below the length of `needed`
    needed (N,)
    ->     (N,)
    """
    return np.bincount(owners[ok], minlength=len(needed)) >= needed


def largest_group(ok: Mask, groups: Rows, owners: Rows, size: int) -> Amounts:
    """The number of fitting devices in each owner's best group.

    ok     (R,)
    groups (R,)  the first device of each device's group; a group has one owner; -1 for no group
    owners (R,)  below `size` where `ok`
    ->     (size,)
    """
    counts = _by_group(ok, groups)
    some = np.flatnonzero(counts)
    result = np.zeros(size, dtype=np.int64)
    np.maximum.at(result, owners[some], counts[some])
    return result


def may_serve_together(
    lead: Mask,
    further: Sequence[Mask],
    groups: Rows,
    owners: Rows,
    needed: Amounts,
    wanted: Sequence[Amounts],
) -> Mask:
    """Owners that may have enough lead devices in groups that also have every further kind of device.

    This is a bound: an owner that is excluded has too few; an owner that is included may have too few.

    lead    (R,)  lead devices that fit
    further (R,)  for each further kind, devices that fit
    groups  (R,)  the first device of each device's group; a group has one owner; -1 for no group
    owners  (R,)  below the length of `needed` where anything fits
    needed  (N,)  number of lead devices
    wanted  (N,)  for each further kind, number of devices in the groups of the lead devices
    ->      (N,)
    """
    counts = [_by_group(ok, groups) for ok in (lead, *further)]
    whole = np.flatnonzero(np.logical_and.reduce([count > 0 for count in counts]))
    found = np.ones(len(needed), dtype=np.bool_)
    for count, least in zip(counts, (needed, *wanted), strict=True):
        found &= np.bincount(owners[whole], weights=count[whole], minlength=len(needed)) >= least
    return found


def _by_group(ok: Mask, groups: Rows) -> Amounts:
    """(R,) number of ok devices of each group, at the row of its first device."""
    return np.bincount(groups[ok & (groups >= 0)], minlength=len(groups))


def group_held(held: Mask, groups: Rows, size: int) -> Mask:
    """Devices that are held themselves or have a held device in their group.

    held   (R,)
    groups (R,)  below `size`; -1 for a group of its own
    ->     (R,)
    """
    inside = groups >= 0
    busy = np.zeros(size, dtype=np.bool_)
    busy[groups[held & inside]] = True
    result = held.copy()
    result[inside] = busy[groups[inside]]
    return result


def remaining_sets(members: Mask, alive: Mask, picks: Rows) -> Mask:
    """The sets that can still be picked after each pick.

    members (P, M)  which members each set has
    alive   (P,)    sets that can be picked now
    picks   (C,)    rows of `members`
    ->      (C, P)  alive, and no member in common with the pick
    """
    # int8 sums would wrap at 256 common members.
    wide = members.astype(np.int32)
    return alive & (wide[picks] @ wide.T == 0)


def total_weight(remaining: Mask, weights: Amounts) -> Amounts:
    """The sum of the weights of the remaining sets.

    remaining (C, P)
    weights   (P,)
    ->        (C,)
    """
    return remaining.astype(np.int64) @ weights


def rank_by_remaining(remaining: Mask, sizes: Amounts, worth: Amounts) -> Rows:
    """Picks ranked by the sets that remain: the largest size, its worth, then the count of each size.

    remaining (C, P)
    sizes     (P,)   positive
    worth     (P,)   not negative
    ->        (C,)   0 for the best, equal picks share a rank, no gaps
    """
    largest = np.where(remaining, sizes, 0).max(axis=1, initial=0)
    best = np.where(remaining & (sizes == largest[:, None]), worth, -1).max(axis=1, initial=-1)
    each = distinct(sizes)[::-1]
    counts = remaining.astype(np.int64) @ (sizes[:, None] == each)
    keys = np.column_stack((largest, best, counts))
    ranks: Rows = np.unique(-keys, axis=0, return_inverse=True)[1].reshape(-1)
    return ranks
