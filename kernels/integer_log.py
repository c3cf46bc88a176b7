"""Integers that are only ever added, mostly a few at a time. Read as a list where few are asked for."""

from collections.abc import Sequence

import numpy as np

from kernels.types import Codes, Rows

ROOM = 1 << 10
"""Integers for which a log has room at first"""
MOST_RECENT = 1 << 7
"""Integers of short lists that wait to be put into the array: each alone would cost as much as 20 at once"""


class IntegerLog:
    """A list of integers that only grows. Readers in other threads see all that was added before they ask."""

    def __init__(self) -> None:
        self._parts: tuple[Rows, int, list[int]] = (np.empty(ROOM, dtype=np.intp), 0, [])
        """An array, how many integers it has, and those that come after them. Replaced in one step; what
        readers may have seen of it stays as it is"""
        self._end = 0

    def __len__(self) -> int:
        return self._end

    def add(self, values: Rows | Codes | Sequence[int]) -> int:
        """Add integers (n,); return how many there are then."""
        self._end += len(values)
        if type(values) is list:
            recent = self._parts[2]
            recent += values
            if len(recent) > MOST_RECENT:
                self._store(())
        else:
            self._store(values)
        return self._end

    def _store(self, values: Rows | Codes | Sequence[int]) -> None:
        """Put into the array what was added last, and then these."""
        array, size, recent = self._parts
        end = size + len(recent)
        if self._end > len(array):
            wider = np.empty(2 * self._end, dtype=np.intp)
            wider[:size] = array[:size]
            array = wider
        if recent:
            array[size:end] = recent
            recent = []
        if len(values):
            array[end : self._end] = values
        self._parts = array, self._end, recent

    def between(self, start: int, end: int) -> Rows:
        """(end - start,) the integers from one position to before another. Must not be written to."""
        array, size, recent = self._parts
        if end <= size:
            return array[start:end]
        later = np.array(recent[max(start - size, 0) : end - size], dtype=np.intp)
        return later if start >= size else np.concatenate([array[start:size], later])

    def listed(self, start: int, end: int) -> list[int]:
        """The same as a list, faster than an array where they are few."""
        array, size, recent = self._parts
        if start >= size:
            return recent[start - size : end - size]
        found: list[int] = (array[start:end] if end <= size else self.between(start, end)).tolist()
        return found
