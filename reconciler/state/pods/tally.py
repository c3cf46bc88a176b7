"""How often keys occur on each node, as columns. A key has a column while some pod has it."""

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

import numpy as np

from kernels.types import Amounts
from reconciler.state.forking import Forkable
from reconciler.state.nodes.labels import widened

Key = TypeVar("Key", bound=Hashable)


class Tally(Forkable, Generic[Key]):
    """Keys by rows of nodes."""

    def __init__(self) -> None:
        self._columns: dict[Key, Amounts] = {}
        self._total: dict[Key, int] = {}

    def __contains__(self, key: Key) -> bool:
        return key in self._columns

    def __iter__(self) -> Iterator[Key]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def add(self, key: Key, row: int, amount: int) -> None:
        """Add to a key at a row; a key that no row has any more is dropped."""
        column = self._columns.get(key)
        if column is None:
            column = np.zeros(row + 1, dtype=np.int64)
        column = self._columns[key] = widened(column, row + 1)
        column[row] += amount
        total = self._total[key] = self._total.get(key, 0) + amount
        if total == 0:
            del self._columns[key], self._total[key]

    def column(self, key: Key, size: int) -> Amounts:
        """(size,) the counts of a key; zero if no row has it. Callers must not change it."""
        column = self._columns.get(key)
        if column is None:
            return np.zeros(size, dtype=np.int64)
        if len(column) < size:
            column = self._columns[key] = widened(column, size)
        found: Amounts = column[:size]
        return found
