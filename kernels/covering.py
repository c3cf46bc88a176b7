"""Why vectors of some groups cannot add up to what is wanted: weights by which they are worth less."""

from collections.abc import Sequence

import numpy as np

from kernels.types import Amounts

LARGEST = 1 << 40
"""The largest weight. Prices have no bound, but a weight times all that the groups give must not overflow."""
MOST_PIVOTS = 300
CLOSE = 1e-9
"""Up to this, a number of the simplex algorithm counts as zero: it may be a rounding error"""


def separating(
    wanted: Amounts, tables: Sequence[Amounts], sizes: Sequence[int]
) -> tuple[Amounts, int] | None:
    """Weights by which `wanted` is worth more than all that groups can give; None if none are found.

    wanted  (K,)    at least so much of each kind; a negative number limits the sum of negative ones
    tables  (v, K)  what some equal groups can give: each group one of the vectors, or nothing
    sizes           for each table, how many groups are equal
    ->      (K,) integers that are not negative, and the most that all groups together are worth by them

    There are such weights exactly if no mixture of the vectors gives what is wanted. The simplex algorithm
    mixes the vectors so that as little as possible is lacking; at its end the prices of the kinds are the
    weights. They are rounded, and what they prove is counted in integers.
    """
    kinds, groups, vectors = len(wanted), len(tables), np.concatenate(tables)
    begins = np.cumsum([0, *map(len, tables)])
    count, needed = len(vectors), wanted > 0
    sign = np.where(needed, 1, -1)
    # A row for each kind, for each table, and for the prices. A column for each vector, for what is given of
    # each kind beyond what is wanted, and for the right side. At first everything is lacking.
    board = np.zeros((kinds + groups + 1, count + kinds + 1))
    board[:kinds, :count] = vectors.T * sign[:, None]
    np.fill_diagonal(board[:kinds, count:], -sign)
    board[:kinds, -1] = np.abs(wanted)
    board[kinds + np.repeat(np.arange(groups), np.diff(begins)), np.arange(count)] = 1
    board[kinds:-1, -1] = sizes
    board[-1] = -board[:kinds][needed].sum(axis=0)
    for _ in range(MOST_PIVOTS):
        enters = int(board[-1, :-1].argmin())
        column = board[:-1, enters]
        rising = np.flatnonzero(column > CLOSE)
        if board[-1, enters] > -CLOSE or board[-1, -1] > -CLOSE or not len(rising):
            break
        leaves = rising[(board[rising, -1] / column[rising]).argmin()]
        row = board[leaves] / column[leaves]
        board -= np.outer(board[:, enters], row)
        board[leaves] = row
    prices = np.maximum(board[-1, count:-1], 0)
    weights = np.rint(prices * (LARGEST / prices.max(initial=1))).astype(np.int64)
    most = int(np.maximum.reduceat(np.maximum(vectors @ weights, 0), begins[:-1]) @ np.array(sizes))
    return (weights, most) if int(weights @ wanted) > most else None
