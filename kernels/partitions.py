"""Sets of members of which those that overlap exclude each other, and what picking one leaves."""

import numpy as np

from kernels.types import Amounts, Mask, Rows


def left_over(members: Mask, alive: Mask, picks: Rows) -> Mask:
    """The sets that can still be picked after each of some picks.

    members (P, M)  which members each set has
    alive   (P,)    sets that can be picked now
    picks   (C,)    rows of `members`
    ->      (C, P)  alive and without a member of the pick
    """
    # Integers of one byte would wrap at 256 common members.
    wide = members.astype(np.int32)
    return alive & (wide[picks] @ wide.T == 0)


def weighted(left: Mask, weights: Amounts) -> Amounts:
    """The sum of the weights of what is left.

    left    (C, P)
    weights (P,)
    ->      (C,)
    """
    return left.astype(np.int64) @ weights


def ranked_by_what_remains(left: Mask, sizes: Amounts, worth: Amounts) -> Rows:
    """Picks ranked by what they leave: the largest set, its worth, then how many of each size.

    left  (C, P)
    sizes (P,)   positive
    worth (P,)   not negative
    ->    (C,)   0 for the best, the same number for equal ones, without gaps
    """
    largest = np.where(left, sizes, 0).max(axis=1, initial=0)
    best = np.where(left & (sizes == largest[:, None]), worth, -1).max(axis=1, initial=-1)
    distinct = np.unique(sizes)[::-1]
    counts = left.astype(np.int64) @ (sizes[:, None] == distinct)
    keys = np.column_stack((largest, best, counts))
    ranks: Rows = np.unique(-keys, axis=0, return_inverse=True)[1].reshape(-1)
    return ranks
