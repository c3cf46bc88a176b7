"""Reductions over rows that share a group."""

import numpy as np

from kernels.types import Amounts, Codes, Mask, Rows

FEW = 16
"""Rows up to which counting one by one is faster than a call of `np.add.at`"""


def count_changes(counts: Amounts, groups: Codes | Rows, gained: Mask) -> None:
    """Add one to a row's group for each row that it gained, and subtract one for each that it lost.

    counts (size,)  written
    groups (n,)     below `size`; may repeat
    gained (n,)
    """
    if len(groups) > FEW:
        np.add.at(counts, groups, np.where(gained, 1, -1))
        return
    for group, more in zip(groups.tolist(), gained.tolist(), strict=True):
        counts[group] += 1 if more else -1


def group_min(values: Amounts, groups: Rows, size: int) -> Amounts:
    """The least value of each column within each group.

    values (n, C)
    groups (n,)    below `size`
    ->     (size, C)  zero for groups without rows
    """
    least = np.zeros((size, values.shape[1]), dtype=np.int64)
    if len(groups):
        order = np.argsort(groups, kind="stable")
        present, first = np.unique(groups[order], return_index=True)
        least[present] = np.minimum.reduceat(values[order], first, axis=0)
    return least


def group_code(codes: Codes, groups: Rows, size: int) -> Codes:
    """The code that all rows of a group share.

    codes  (n,)
    groups (n,)    below `size`
    ->     (size,) -1 for groups whose rows differ and for groups without rows
    """
    shared = np.full(size, -1, dtype=np.int32)
    shared[groups] = codes
    differ = groups[shared[groups] != codes]
    shared[differ] = -1
    return shared
