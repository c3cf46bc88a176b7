"""Looks up which slices and devices of a pool a node reaches: most of a network's pool is for other nodes."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kernels.index import Inverse, invert
from kernels.types import Codes, Mask, Rows
from reconciler.api.objects.semantics import PARTITIONABLE_DEVICES, Semantics
from reconciler.state.devices.encoding.block import Block
from reconciler.state.devices.pools.reach import Reach


class Asked(NamedTuple):
    """What one node reaches of a pool of D devices."""

    blocks: Sequence[int]
    """Positions of the slices that concern it, rising"""
    devices: Mask
    """(D,) devices of those that it reaches"""


class AskedBlocks:
    """The slices of one pool and their D devices, by the nodes and node selectors that they name.

    Slices that name nodes device by device concern whom their devices name. All others are asked.
    """

    def __init__(self, blocks: Sequence[Block], offsets: Rows, rules: Semantics) -> None:
        """`offsets` (slices + 1,) is the first device of each slice."""
        self._blocks, self._offsets, self._rules = blocks, offsets, rules
        self._of = np.repeat(np.arange(len(blocks)), np.diff(offsets))
        """(D,) the position of each device's slice"""
        looked_up = self._looked_up()
        self._others: list[int] = np.flatnonzero(~looked_up).tolist()
        if not rules.has(PARTITIONABLE_DEVICES):
            looked_up[:] = False  # such slices concern nobody
        self._by_node = self._inverted("node", looked_up)
        self._by_selector = self._inverted("selector", looked_up)

    def _looked_up(self) -> Mask:
        """(slices,) those that name nodes by device only."""
        found = np.array([_by_device_only(block, self._rules) for block in self._blocks], dtype=np.bool_)
        anywhere = np.concatenate([block.anywhere for block in self._blocks])
        found[self._of[anywhere]] = False
        return found

    def _inverted(self, name: str, looked_up: Mask) -> Inverse:
        codes: Codes = np.concatenate([block.column(name) for block in self._blocks])
        codes = np.where(looked_up[self._of], codes, -1)
        return invert(codes, int(codes.max(initial=-1)) + 1)

    def by(self, node: Reach) -> Asked:
        """What a node reaches. Needs all selectors to be readable."""
        devices = np.zeros(len(self._of), dtype=np.bool_)
        blocks = np.zeros(len(self._blocks), dtype=np.bool_)
        for index, codes in ((self._by_selector, node.codes), (self._by_node, (node.node_code,))):
            size = len(index.start) - 1  # later selectors, and nodes that no device names, have no place here
            known = [code for code in codes if 0 <= code < size]
            if known:
                rows, _ = index.of_each(np.array(known, dtype=np.intp))
                devices[rows] = True
                blocks[self._of[rows]] = True
        for at in self._others:
            if node.concerns(self._blocks[at], self._rules):
                blocks[at] = True
                devices[self._offsets[at] : self._offsets[at + 1]] = node.devices(self._blocks[at])
        return Asked(np.flatnonzero(blocks).tolist(), devices)


def _by_device_only(block: Block, rules: Semantics) -> bool:
    spec = block.slice.spec
    return bool(spec.per_device_node_selection) and not (
        spec.node_name
        or spec.all_nodes
        or spec.node_selector is not None
        or (rules.old and spec.shared_counters)  # concerns all nodes
    )
