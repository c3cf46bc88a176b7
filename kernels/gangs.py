"""How many things of a few kinds fit into domains of places, at most. Counts only: sound, not tight.

N places, G domains, K kinds, S counter sets, C counters. A domain code (N,) is below G, or -1 for places
in no domain.
"""

import numpy as np

from kernels.types import Amounts, Codes, Mask

UNLIMITED = 2**31
"""What limits nothing; sums over all places stay exact"""


def per_domain(each: Amounts, codes: Codes, size: int) -> Amounts:
    """(G,) the sum over the places of each domain.

    each (N,)  at most 2**53 in total
    size       G
    """
    inside = codes >= 0
    return np.bincount(codes[inside], weights=each[inside], minlength=size).astype(np.int64)


def apart(each: Amounts, codes: Codes, groups: Codes) -> Amounts:
    """What remains of `each` if things of one group exclude each other: one in the first place of a group.

    each   (N,)
    codes  (N,)  domains
    groups (N,)  0 for places in no group
    ->     (N,)  a group that reaches into two domains counts in both
    """
    found = each.copy()
    at = np.flatnonzero((groups > 0) & (each > 0) & (codes >= 0))
    pairs = codes[at].astype(np.int64) * (int(groups.max(initial=0)) + 1) + groups[at]
    _, first = np.unique(pairs, return_index=True)
    found[at] = 0
    found[at[first]] = 1
    return found


def most_with(supply: Amounts, needs: Amounts) -> Amounts:
    """(G,) the most things that a supply suffices for, the modest first.

    supply (G,)
    needs  (M,)  of each thing, not negative
    """
    enough: Amounts = np.searchsorted(np.cumsum(np.sort(needs)), supply, side="right").astype(np.int64)
    return enough


def devices_of_sets(left: Amounts, least: Amounts, devices: Amounts) -> Amounts:
    """(S,) the most devices of each set that its counters suffice for.

    left    (S, C)  may be negative
    least   (S, C)  the least that a device draws
    devices (S,)    devices that draw from the set
    """
    drawn = np.where(least > 0, least, 1)
    times = np.where(least > 0, np.maximum(left, 0) // drawn, UNLIMITED)
    return np.minimum(times.min(axis=1, initial=UNLIMITED), devices)


def room_for(free: Amounts, wanted: Amounts, among: Mask) -> Amounts:
    """(N,) how many things with these wants each place has room for; 0 outside `among`.

    free   (R, N)  may be negative
    wanted (R,)
    """
    each = np.full(free.shape[1], UNLIMITED, dtype=np.int64)
    for r in np.flatnonzero(wanted).tolist():
        np.minimum(each, np.maximum(free[r], 0) // wanted[r], out=each)
    return np.where(among, each, 0)
