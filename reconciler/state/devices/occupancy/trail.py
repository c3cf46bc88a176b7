"""Which rows changed, change by change, so that derived values follow without looking at the others."""

import numpy as np

from kernels.types import Rows

LONGEST_TRAIL = 20_000
"""Most changes kept. A follower that is further behind starts from scratch: this only bounds memory."""

ROOM = 1 << 10
"""Rows for which a trail has room at first"""


class Trail:
    """The rows that each change of the columns affects. Derived values follow it.

    Changes are only added, and readers in other threads see whole changes.
    """

    def __init__(self) -> None:
        self._rows: Rows = np.empty(ROOM, dtype=np.intp)
        self._ends = [0]
        """How many rows there are after each change; the first entry is before all changes"""

    def __len__(self) -> int:
        return len(self._ends) - 1

    def add(self, rows: Rows) -> None:
        """Add a change."""
        start = self._ends[-1]
        end = start + len(rows)
        if end > len(self._rows):
            wider = np.empty(2 * end, dtype=np.intp)
            wider[:start] = self._rows[:start]
            self._rows = wider
        self._rows[start:end] = rows
        self._ends.append(end)

    def between(self, serial: int, later: int) -> Rows:
        """(n,) rows that may differ between two serials; a row may appear more than once."""
        return self._rows[self._ends[serial] : self._ends[later]]
