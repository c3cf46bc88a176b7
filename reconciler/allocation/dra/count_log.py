"""Which nodes' counts changed, in order of the changes. Readers follow it, each at its own pace."""

from collections.abc import Sequence
from typing import NamedTuple

from kernels.integer_log import IntegerLog
from kernels.types import Amounts, Codes, Rows

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

_new = tuple.__new__  # half the time of `Position(...)`


class CountLog:
    """The nodes whose counts changed."""

    def __init__(self) -> None:
        self._nodes = IntegerLog()
        self._selected: list[Selected] = []
        self.end = Position(0, 0, 0)
        """The position of a reader that has read everything"""

    def add(self, nodes: Codes | Sequence[int], selected: Selected | None = None) -> None:
        """Note a change on some nodes, by the fleet's code, and on those that selectors match."""
        generation, start, known = self.end
        if start + len(nodes) > LONGEST_LOG or known >= MOST_SELECTED:
            self.clear()
            return
        if selected is not None:
            self._selected.append(selected)
            known += 1
        self.end = _new(Position, (generation, self._nodes.add(nodes), known))

    def clear(self) -> None:
        """Note a change that may concern any node."""
        self._nodes = IntegerLog()
        self._selected.clear()
        self.end = Position(self.end.generation + 1, 0, 0)

    def since(self, position: Position) -> tuple[Rows, list[Selected]] | None:
        """The changes from a position on: (n,) nodes by the fleet's code, and changes by selectors.

        None if any node may have changed. To be used before the next change.
        """
        generation, nodes, selected = position
        if generation != self.end.generation:
            return None
        return self._nodes.between(nodes, self.end.nodes), self._selected[selected:]

    def few_since(self, position: Position, most: int) -> list[int] | None:
        """The nodes of the changes from a position on, by the fleet's code.

        None if there are more, if selectors decide, or if any node may have changed.
        """
        generation, nodes, selected = position
        now, end, known = self.end
        if generation != now or selected != known or end - nodes > most:
            return None
        return self._nodes.listed(nodes, end)
