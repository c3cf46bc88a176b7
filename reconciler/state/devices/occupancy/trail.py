"""Which rows changed, change by change, so that derived values follow without looking at the others."""

from collections.abc import Sequence

from kernels.integer_log import IntegerLog
from kernels.types import Rows

LONGEST_TRAIL = 20_000
"""Most changes kept. A follower that is further behind starts from scratch: this only bounds memory."""


class Trail:
    """The rows that each change of the columns affects. Derived values follow it.

    Changes are only added, and readers in other threads see whole changes.
    """

    def __init__(self) -> None:
        self._rows = IntegerLog()
        self._ends = [0]
        """How many rows there are after each change; the first entry is before all changes"""

    def __len__(self) -> int:
        return len(self._ends) - 1

    def add(self, rows: Rows | Sequence[int]) -> None:
        """Add a change: the rows (n,) that it affects."""
        self._ends.append(self._rows.add(rows))

    def between(self, serial: int, later: int) -> Rows:
        """(n,) rows that may differ between two serials; a row may appear more than once."""
        return self._rows.between(self._ends[serial], self._ends[later])

    def few_between(self, serial: int, later: int, most: int) -> list[int] | None:
        """The same as a list; None if there are more than `most`."""
        start, end = self._ends[serial], self._ends[later]
        return self._rows.listed(start, end) if end - start <= most else None
