"""The view of one node: the pools it may see, by names and selectors of their slices, and their devices."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain

import numpy as np

from kernels.types import Codes
from reconciler.api.objects.semantics import Semantics
from reconciler.state.devices.encoding.block import Block
from reconciler.state.devices.encoding.vocabulary import Vocabulary
from reconciler.state.devices.fleet import Fleet
from reconciler.state.devices.pool import Pool
from reconciler.state.devices.reach import NodeInfo, Reach


class NearPools:
    """The pools of a fleet by the nodes that may see them. Immutable."""

    def __init__(self, fleet: Fleet, rules: Semantics) -> None:
        self._rules = rules
        self._local: dict[str, list[int]] = {}
        self._selecting: dict[int, list[int]] = {}
        self._spanning: list[int] = []
        old = rules.old
        for at, pool in enumerate(fleet.pools):
            nodes = None if old and pool.counters.sets else pool.nodes
            if nodes is None:
                self._register(at, pool, fleet.vocabulary)
            else:
                for node in nodes:
                    self._local.setdefault(node, []).append(at)

    def _register(self, at: int, pool: Pool, vocabulary: Vocabulary) -> None:
        for block in pool.blocks:
            names: Iterable[int] = ()
            selectors: Iterable[int] = ()
            if self._rules.old and block.shares_counters:
                self._spanning.append(at)
            elif block.node_name:
                self._local.setdefault(block.node_name, []).append(at)
            elif block.all_nodes:
                self._spanning.append(at)
            elif block.selector >= 0:
                selectors = [block.selector]
            elif block.per_device_node_selection:
                if block.anywhere.any():
                    self._spanning.append(at)
                names = set(block.column("node").tolist())
                selectors = set(block.column("selector").tolist())
            for code in names:
                if code >= 0:
                    self._local.setdefault(vocabulary.nodes.values[code], []).append(at)
            for code in selectors:
                if code in vocabulary.selector_index.unreadable:  # every node has to report the error
                    self._spanning.append(at)
                elif code >= 0:
                    self._selecting.setdefault(code, []).append(at)

    def of(self, name: str, reach: Reach) -> Sequence[int]:
        """Positions of the pools that a node may see, in order."""
        local, selecting = self._local.get(name, []), self._selecting
        if not self._spanning and not selecting and len(local) <= 1:
            return local
        near = {*local, *self._spanning}
        if selecting:
            near.update(*[selecting[code] for code in reach.codes if code in selecting])
        return sorted(near)


def are_seen_alike(old: Pool, new: Pool) -> bool:
    """Whether the same nodes may see two versions of a pool."""
    return len(old.blocks) == len(new.blocks) and all(
        one is other or _targets_alike(one, other) for one, other in zip(old.blocks, new.blocks, strict=True)
    )


def _targets_alike(old: Block, new: Block) -> bool:
    return (
        (old.node_name, old.all_nodes, old.per_device_node_selection, old.selector)
        == (new.node_name, new.all_nodes, new.per_device_node_selection, new.selector)
        and old.shares_counters == new.shares_counters
        and (
            not old.per_device_node_selection
            or all(
                np.array_equal(mine, its)
                for mine, its in (
                    (old.column("node"), new.column("node")),
                    (old.column("selector"), new.column("selector")),
                    (old.anywhere, new.anywhere),
                )
            )
        )
    )


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
        codes = [[*self._index.codes(name, self._nodes[name].labels), *unreadable] for name in self._names]
        sizes, joined = [len(one) for one in codes], np.array([*chain.from_iterable(codes)], dtype=np.intp)
        kept = used[np.minimum(joined, known)]
        # One number a pair, so that pairs can be sorted; a node may match a selector for several reasons.
        numbers = np.repeat(np.arange(len(sizes)) * known, sizes)[kept] + joined[kept]
        numbers.sort()
        if len(numbers):
            numbers = numbers[np.concatenate([[True], numbers[1:] != numbers[:-1]])]
        return (numbers // known).astype(np.int32), (numbers % known).astype(np.int32)
