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
    found = np.full(size, np.inf)
    enough, smallest = _smallest_of_group(groups, values, n, size)
    found[enough] = smallest[:, -1]
    return found


def sums_of_group(groups: Rows, values: Weights, n: int, size: int) -> Weights:
    """The sum of the n smallest values of each group. Takes and returns what `nth_of_group` does."""
    found = np.full(size, np.inf)
    enough, smallest = _smallest_of_group(groups, values, n, size)
    found[enough] = smallest.sum(axis=1)
    return found


def _smallest_of_group(groups: Rows, values: Weights, n: int, size: int) -> tuple[Rows, Weights]:
    """(k,) the groups with n values or more, and (k, n) their smallest ones, rising: never more than m."""
    order = np.lexsort((values, groups))
    start = np.searchsorted(groups[order], np.arange(size + 1))
    enough = np.flatnonzero(start[1:] - start[:-1] >= n)
    if not len(enough):  # n comes from users and may be any number
        return enough, np.empty((0, 1))
    return enough, values[order[start[enough, None] + np.arange(n)]]


def whole(values: Weights) -> Weights:
    """Whole numbers that are not above the true values, which are computed with a small error."""
    return np.ceil(values - 0.01)
