"""Which slices and devices a node reaches. Source: rules NM-1, NM-2, POOL-3."""

from collections.abc import Mapping

import numpy as np
from msgspec import Struct

from kernels.groups import constant_mask
from kernels.types import Mask
from reconciler.api.objects.semantics import PARTITIONABLE_DEVICES, Semantics
from reconciler.errors import Rejected
from reconciler.state.devices.encoding.block import Block
from reconciler.state.devices.encoding.vocabulary import Vocabulary

SKIP_OPERATIONS = "DRAOptionalNodeOperations"
"""The feature that a node must declare for devices that skip operations"""


class NodeInfo(Struct, frozen=True, gc=False):
    """The properties of a node that decide which devices it can use."""

    name: str
    labels: Mapping[str, str]
    features: frozenset[str] = frozenset()


class Reach:
    """What one node reaches. An unparsable selector matters only if it is needed (NM-1)."""

    def __init__(self, node: NodeInfo, vocabulary: Vocabulary) -> None:
        self.node = node
        self._vocabulary = vocabulary
        self._index = vocabulary.selector_index
        self._codes: list[int] | None = None
        self._matching: Mask | None = None

    @property
    def node_code(self) -> int:
        """The code of the node; UNKNOWN if no slice names it."""
        return self._vocabulary.nodes.find(self.node.name)

    @property
    def codes(self) -> list[int]:
        """Codes of the selectors that match the node. Computed on first use: most slices name their node."""
        if self._codes is None:
            self._codes = self._index.codes(self.node.name, self.node.labels)
        return self._codes

    @property
    def matching(self) -> Mask:
        """(Q,) the selectors that match the node."""
        if self._matching is None:
            codes = self.codes  # first: another thread may add selectors meanwhile
            matching = np.zeros(len(self._vocabulary.selectors.values), dtype=np.bool_)
            matching[codes] = True
            self._matching = matching
        return self._matching

    @property
    def may_fail(self) -> bool:
        """Whether some selector cannot be parsed."""
        return bool(self._index.unreadable)

    def _selected_by(self, code: int, block: Block) -> bool:
        """Whether a selector of a slice, given by its code, matches the node.

        Raises Rejected with the name of the slice if the selector cannot be parsed.
        """
        problem = self._index.unreadable.get(code)
        if problem is not None:
            raise Rejected(f"ResourceSlice {block.name}: {problem}")
        return bool(self.matching[code])

    def devices(self, block: Block) -> Mask:
        """(n,) devices of a slice that the node reaches. Raises Rejected if a selector cannot be parsed."""
        if not block.per_device_node_selection and block.node_name:
            return constant_mask(len(block.names), yes=block.node_name == self.node.name)
        return (block.column("node") == self.node_code) | block.anywhere | self._selected(block)

    def concerns(self, block: Block, rules: Semantics) -> bool:
        """Whether a slice is relevant for the node (POOL-2, POOL-3)."""
        if needs_gate(block, rules):
            return False
        if rules.old and block.shares_counters:
            return True
        if block.node_name:
            return block.node_name == self.node.name
        if block.all_nodes:
            return True
        if block.selector >= 0:
            return self._selected_by(block.selector, block)
        return bool(block.per_device_node_selection) and bool(self.devices(block).any())

    def _selected(self, block: Block) -> Mask:
        """(n,) devices whose selector matches the node. Raises Rejected if a selector cannot be parsed."""
        codes = block.column("selector")
        if self._index.unreadable:
            for code in codes[codes >= 0].tolist():
                self._selected_by(code, block)
        if not len(self.matching):
            return np.zeros(codes.shape, dtype=np.bool_)
        return (codes >= 0) & self.matching[codes]


def needs_gate(block: Block, rules: Semantics) -> bool:
    """Whether a slice concerns no node because the gate of partitionable devices is off."""
    return not rules.has(PARTITIONABLE_DEVICES) and (
        block.per_device_node_selection is not None or block.shares_counters
    )
