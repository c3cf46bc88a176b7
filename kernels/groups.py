"""Rows by value: values that occur, reductions over rows of a group, rows by their code."""

from functools import lru_cache
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from kernels.types import Amounts, Codes, Mask, Rows

T = TypeVar("T", bound=np.generic)
U = TypeVar("U", bound=np.generic)


def distinct(values: NDArray[T]) -> NDArray[T]:
    """The values that occur, ascending.

    values (any shape)  of any type with an order; without NaN and -0.0
    ->     (n,)         a new array of the same type

    As `np.unique` with this argument alone, which imports `numpy.ma` to see that its argument is not masked:
    a twentieth of the time of a short command.
    """
    ordered = np.sort(values, axis=None)
    first = np.empty(ordered.shape, dtype=np.bool_)
    first[:1] = True
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]


def distinct_pairs(first: NDArray[T], second: NDArray[U]) -> tuple[NDArray[T], NDArray[U]]:
    """The pairs that occur, by the first of each, then the second.

    first, second (n,)  of any types with an order; without NaN and -0.0
    ->     (u,), (u,)   new arrays of the same types
    """
    order = np.lexsort((second, first))
    first, second = first[order], second[order]
    new = np.empty(first.shape, dtype=np.bool_)
    new[:1] = True
    np.logical_or(first[1:] != first[:-1], second[1:] != second[:-1], out=new[1:])
    return first[new], second[new]


def count_changes(counts: Amounts, groups: Codes | Rows, gained: Mask) -> None:
    """Add one to a row's group for each row that it gained, and subtract one for each that it lost.

    counts (size,)  written
    groups (n,)     below `size`; may repeat
    gained (n,)
    """
    np.add.at(counts, groups, np.where(gained, 1, -1))


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


class Inverse(NamedTuple):
    """Rows by code: the rows of code `c` are `rows[start[c] : start[c + 1]]`, ascending."""

    rows: Rows
    start: Rows

    def of(self, code: int) -> Rows:
        """(n,) the rows that have one code."""
        return self.rows[self.start[code] : self.start[code + 1]]

    def of_any(self, codes: Rows) -> Rows:
        """(n,) the rows that have at least one of the codes, ascending and distinct."""
        if len(codes) == 1:
            return self.of(int(codes[0]))
        if len(codes) == 0:
            return self.rows[:0]
        return distinct(np.concatenate([self.of(int(code)) for code in codes]))

    def of_each(self, codes: Codes) -> tuple[Rows, Rows]:
        """The rows of some codes, code by code.

        codes (n,)  may repeat
        ->    (m,) rows, and (m,) the position in `codes` that each belongs to
        """
        first = self.start[codes]
        sizes = self.start[codes + 1] - first
        of = np.arange(len(codes)).repeat(sizes)
        skipped = first + sizes - sizes.cumsum()
        return self.rows[np.arange(len(of)) + skipped[of]], of


def invert(codes: Codes, size: int) -> Inverse:
    """The index from code to rows.

    codes (D,) or (D, K)  values below `size`; negative ones are skipped
    size                  number of codes
    """
    flat = codes.reshape(-1)
    width = codes.shape[1] if codes.ndim == 2 else 1
    kept = np.flatnonzero(flat >= 0)
    order = kept[np.argsort(flat[kept], kind="stable")]
    start = np.zeros(size + 1, dtype=np.intp)
    np.cumsum(np.bincount(flat[kept], minlength=size), out=start[1:])
    return Inverse(rows=order // width, start=start)


@lru_cache(maxsize=256)
def row_range(first: int, last: int) -> Rows:
    """(last - first,) the rows from `first` to before `last`. Read-only and cached."""
    rows = np.arange(first, last, dtype=np.intp)
    rows.setflags(write=False)
    return rows


@lru_cache(maxsize=256)
def constant_mask(size: int, *, yes: bool) -> Mask:
    """(size,) the same value for all rows. Read-only and cached."""
    mask = np.full(size, yes)
    mask.setflags(write=False)
    return mask
