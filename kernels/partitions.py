"""Sets of members where overlapping sets exclude each other, and which sets remain after a pick."""

import numpy as np

from kernels.distinct import distinct
from kernels.types import Amounts, Mask, Rows


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
