"""Who would have to leave so that devices can be allocated, and a bound of what that costs on each node."""

import numpy as np
from numpy.typing import NDArray

from kernels.types import Amounts, Codes, Rows

Weights = NDArray[np.float64]


def freed_draws(sets: Codes, draws: Codes, table: Amounts, units: Rows) -> tuple[Rows, Rows, Amounts]:
    """What each unit returns to each counter set when it leaves, as pairs in the order of sets, then units.

    sets  (H, K)  sets that each held device draws from, -1 for none
    draws (H, K)  row of `table` for each of those sets
    table (P, C)  distinct draws
    units (H,)    the unit that holds the device
    ->    (Q,) set, (Q,) unit, (Q, C) amounts
    """
    at, k = np.nonzero(sets >= 0)
    of_set, of_unit = sets[at, k].astype(np.intp), units[at]
    span = int(of_unit.max(initial=-1)) + 1
    pairs, place = np.unique(of_set * max(span, 1) + of_unit, return_inverse=True)
    amounts = np.zeros((len(pairs), table.shape[1]), dtype=np.int64)
    np.add.at(amounts, place, table[draws[at, k]])
    return pairs // max(span, 1), pairs % max(span, 1), amounts


def forced(
    most: Amounts, table: Amounts, sets: Codes, draws: Codes, freed: tuple[Rows, Rows, Amounts]
) -> tuple[Rows, Rows]:
    """Units without whose leaving a device does not fit in its counter sets, whoever else leaves.

    most  (S, C)  what is left of the counter sets when all units have left
    table (P, C)  distinct draws
    sets  (n, K)  sets that each device draws from, -1 for none
    draws (n, K)  row of `table` for each of those sets
    freed         see `freed_draws`
    ->    (m,) device, (m,) unit: pairs, which may repeat if a device draws from several sets
    """
    of_set, of_unit, amounts = freed
    first = np.searchsorted(of_set, np.arange(len(most) + 1))
    at, k = np.nonzero(sets >= 0)
    numbers = sets[at, k].astype(np.intp)
    counts = first[numbers + 1] - first[numbers]
    entry = np.repeat(np.arange(len(at)), counts)
    offset = np.arange(len(entry)) - np.repeat(np.cumsum(counts) - counts, counts)
    pair = first[numbers[entry]] + offset
    wanted = table[draws[at[entry], k[entry]]]
    short = (wanted > 0) & (most[numbers[entry]] - amounts[pair] < wanted)
    needed = short.any(axis=1)
    return at[entry[needed]], of_unit[pair[needed]]


def nth_of_group(groups: Rows, values: Weights, n: int, size: int) -> Weights:
    """The n-th smallest value of each group.

    groups (m,)    below `size`
    values (m,)
    n              from 1
    ->     (size,) infinite for groups with fewer values
    """
    return _smallest_of_group(groups, values, n, size)[:, -1]


def sums_of_group(groups: Rows, values: Weights, n: int, size: int) -> Weights:
    """The sum of the n smallest values of each group. Takes and returns what `nth_of_group` does."""
    return _smallest_of_group(groups, values, n, size).sum(axis=1)


def _smallest_of_group(groups: Rows, values: Weights, n: int, size: int) -> Weights:
    """(size, n) the smallest values of each group, rising; all infinite for groups with fewer."""
    order = np.lexsort((values, groups))
    start = np.searchsorted(groups[order], np.arange(size + 1))
    found = np.full((size, n), np.inf)
    enough = start[1:] - start[:-1] >= n
    found[enough] = values[order[start[:-1][enough, None] + np.arange(n)]]
    return found


def whole(values: Weights) -> Weights:
    """Whole numbers that are not above the true values, which are computed with a small error."""
    return np.ceil(values - 0.01)
