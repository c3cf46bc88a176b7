"""Which nodes' counts changed, in order of the changes. Readers follow it, each at its own pace."""

from typing import NamedTuple

import numpy as np

from kernels.types import Amounts, Codes

LONGEST_LOG = 1 << 12
"""Nodes that the log keeps. A reader that is further behind judges all nodes again, which costs as much."""
MOST_SELECTED = 1000
"""Changes of selected nodes that the log keeps"""


class Selected(NamedTuple):
    """Counts that changed for all nodes that a node selector matches."""

    selectors: Codes
    """(n,) codes of the selectors"""
    change: Amounts
    """(n,) by how much"""


class Position(NamedTuple):
    """How far a reader has read."""

    generation: int
    nodes: int
    selected: int


START = Position(-1, 0, 0)
"""Of a reader that has read nothing"""


class CountLog:
    """The nodes whose counts changed."""

    def __init__(self) -> None:
        self._generation = 0
        self._nodes: Codes = np.empty(LONGEST_LOG, dtype=np.int32)
        self._count = 0
        self._selected: list[Selected] = []

    @property
    def end(self) -> Position:
        """The position of a reader that has read everything."""
        return Position(self._generation, self._count, len(self._selected))

    def add(self, nodes: Codes, selected: Selected | None = None) -> None:
        """Note a change on some nodes, by the fleet's code, and on those that selectors match."""
        end = self._count + len(nodes)
        if end > LONGEST_LOG or len(self._selected) >= MOST_SELECTED:
            self.clear()
            return
        self._nodes[self._count : end] = nodes
        self._count = end
        if selected is not None:
            self._selected.append(selected)

    def clear(self) -> None:
        """Note a change that may concern any node."""
        self._generation += 1
        self._count = 0
        self._selected.clear()

    def since(self, position: Position) -> tuple[Codes, list[Selected]] | None:
        """The changes from a position on: (n,) nodes by the fleet's code, and changes by selectors.

        None if any node may have changed. To be used before the next change.
        """
        generation, nodes, selected = position
        if generation != self._generation:
            return None
        return self._nodes[nodes : self._count], self._selected[selected:]
