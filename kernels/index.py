"""From a code to the rows that have it; cached ranges and masks of rows."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from kernels.distinct import distinct
from kernels.types import Codes, Mask, Rows


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
