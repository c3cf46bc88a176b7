"""Columns that grow row by row without a copy each time."""

from typing import Any, TypeVar

import numpy as np

Array = TypeVar("Array", bound=np.ndarray[Any, Any])


def widened(column: Array, size: int) -> Array:
    """The same column if it has `size` rows, else a copy with twice as many; new rows are zero.

    column (..., n)
    ->     (..., m)  m at least `size`
    """
    have = column.shape[-1]
    if have >= size:
        return column
    wider = np.zeros((*column.shape[:-1], 2 * size), dtype=column.dtype)
    wider[..., :have] = column
    return wider  # type: ignore[return-value]
