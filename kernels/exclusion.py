"""Which devices may be held at the same time: rules within a set, devices that are shared in parts, and
sets of devices of which overlapping ones exclude each other.
"""

from collections.abc import Sequence

import numpy as np

from kernels.groups import distinct
from kernels.types import Amounts, Bits, Codes, Mask, Rows

ALL = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
"""All names, present and future"""


def shared_by_all(size: int, scopes: Codes, names: Bits) -> Bits:
    """The names that all devices in a scope share.

    size             number of scopes, S
    scopes (n, K)    scopes of each device, -1 for none
    names  (n, K, W) names that the device declares in each of its scopes
    ->     (S, W)    `ALL` for scopes without devices
    """
    common = np.full((size, names.shape[2]), ALL, dtype=np.uint64)
    for k in range(scopes.shape[1]):
        used = scopes[:, k] >= 0
        np.bitwise_and.at(common, scopes[used, k], names[used, k])
    return common


def shares_a_name(common: Bits, scopes: Codes, names: Bits) -> Mask:
    """Devices that share a name with all held devices, in each of their scopes.

    common (S, W)
    scopes (D, K)    -1 for none
    names  (D, K, W)
    ->     (D,)
    """
    ok = np.ones(len(scopes), dtype=np.bool_)
    for k in range(scopes.shape[1]):
        used = scopes[:, k] >= 0
        if used.any():
            there = common.take(scopes[:, k], axis=0, mode="clip")
            ok &= ~used | ((names[:, k] & there) != 0).any(axis=1)
    return ok


def count_marks(size: int, marks: int, scopes: Codes, bits: Bits) -> Amounts:
    """How many devices have each mark, by scope.

    scopes (n, K)    -1 for none
    bits   (n, K, W)
    ->     (size, marks)
    """
    counts = np.zeros((size, marks), dtype=np.int64)
    for k in range(scopes.shape[1]):
        used = scopes[:, k] >= 0
        np.add.at(counts, scopes[used, k], unpack_bits(bits[used, k], marks))
    return counts


def compatible(asked: Amounts, missed: Amounts, scopes: Codes, asks: Bits, meets: Bits, held: Mask) -> Mask:
    """Devices that meet the marks of all other held devices, and whose own marks those meet.

    asked  (S, M)    number of held devices that ask for a mark
    missed (S, M)    number of held devices that do not meet it
    scopes (D, K)    -1 for none
    asks   (D, K, W)
    meets  (D, K, W)
    held   (D,)      devices included in `asked` and `missed`; a device is not compared with itself
    ->     (D,)
    """
    marks = asked.shape[1]
    ok = np.ones(len(scopes), dtype=np.bool_)
    for k in range(scopes.shape[1]):
        used = np.flatnonzero(scopes[:, k] >= 0)
        own, met = unpack_bits(asks[used, k], marks), unpack_bits(meets[used, k], marks)
        counts = held[used, None]
        asking = asked[scopes[used, k]] > (counts & own)
        missing = missed[scopes[used, k]] > (counts & ~met)
        ok[used] &= ~((asking & ~met) | (missing & own)).any(axis=1)
    return ok


def compatible_with(one: int, scopes: Codes, asks: Bits, meets: Bits) -> Mask:
    """Devices that are compatible with one device, in both directions; that device included.

    scopes (D, K)    -1 for none
    asks   (D, K, W)
    meets  (D, K, W)
    ->     (D,)
    """
    ok = np.ones(len(scopes), dtype=np.bool_)
    for k, scope in enumerate(scopes[one].tolist()):
        if scope < 0:
            continue
        against = (asks[one, k] & ~meets) | (asks & ~meets[one, k])
        ok &= ~((scopes == scope) & (against != 0).any(axis=2)).any(axis=1)
    ok[one] = True
    return ok


def unpack_bits(bits: Bits, size: int) -> Mask:
    """(..., size) the first bits of rows of words (..., W), one bool a bit."""
    octets = np.ascontiguousarray(bits, dtype="<u8").view(np.uint8)
    return np.unpackbits(octets, axis=-1, count=size, bitorder="little").view(np.bool_)


def pack_bits(mask: Mask) -> Bits:
    """(..., W) rows of bools (..., size) as words; the last word is padded with zeros."""
    words = -(-mask.shape[-1] // 64)
    room = np.zeros((*mask.shape[:-1], words * 64), dtype=np.bool_)
    room[..., : mask.shape[-1]] = mask
    octets = np.packbits(room, axis=-1, bitorder="little")
    return np.ascontiguousarray(octets).view("<u8").astype(np.uint64, copy=False)


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
