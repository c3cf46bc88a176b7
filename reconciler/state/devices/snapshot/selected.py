"""Which nodes the node selectors of single devices match."""

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from kernels.index import Inverse, invert
from kernels.types import Codes
from reconciler.state.devices.pools.fleet import Fleet
from reconciler.state.devices.pools.reach import NodeInfo


class SelectedNodes:
    """All pairs of a node and a selector that matches it. Immutable, and computed on first use.

    A selector that cannot be parsed counts as matching, so that its error is reported.
    """

    def __init__(self, fleet: Fleet, nodes: Mapping[str, NodeInfo], names: Sequence[str]) -> None:
        """`names` are those of the nodes in their order."""
        self._column = fleet.codes["selector"]
        self._selectors = fleet.vocabulary.selectors
        self._index = fleet.vocabulary.selector_index
        self._nodes = nodes
        self._names = names

    def answers(self, fleet: Fleet, nodes: Mapping[str, NodeInfo], names: Sequence[str]) -> bool:
        """Whether the pairs are those of another fleet with other nodes."""
        return (
            self._column is fleet.codes["selector"]
            and self._index is fleet.vocabulary.selector_index
            and self._nodes is nodes
            and self._names is names
        )

    @cached_property
    def pairs(self) -> tuple[Codes, Codes]:
        """(M,) positions of nodes, ascending, and (M,) codes of selectors."""
        known = len(self._selectors.values)  # another thread may add some meanwhile
        used = np.zeros(known + 1, dtype=np.bool_)
        used[self._column] = True
        used[-1] = False  # the place of code -1
        if not used.any():
            return np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int32)
        unreadable = [code for code in list(self._index.unreadable) if code < known]
        sizes, joined = self._index.codes_of_each(
            [(name, self._nodes[name].labels) for name in self._names], unreadable
        )
        kept = used[np.minimum(joined, known)]
        # One number a pair, so that pairs can be sorted; a node may match a selector for several reasons.
        numbers = np.repeat(np.arange(len(sizes)) * known, sizes)[kept] + joined[kept]
        numbers.sort()
        if len(numbers):
            numbers = numbers[np.concatenate([[True], numbers[1:] != numbers[:-1]])]
        return (numbers // known).astype(np.int32), (numbers % known).astype(np.int32)

    @cached_property
    def by_selector(self) -> Inverse:
        """Code of a selector -> positions in `pairs`."""
        return invert(self.pairs[1], len(self._selectors.values))
