"""Which of the nodes that were considered reach which devices, and how many of them."""

from collections.abc import Iterable

import numpy as np

from kernels.types import Amounts, Codes, Mask
from reconciler.allocation.dra.static_match import SKIP_OPERATIONS
from reconciler.state.devices.snapshot.snapshot import Snapshot


class Places:
    """N nodes and the D devices of a fleet. Nothing here loops over devices."""

    def __init__(self, world: Snapshot, nodes: Iterable[str] | None) -> None:
        """`nodes` are those considered; None is all."""
        topology, fleet = world.topology, world.fleet
        chosen = None if nodes is None else set(nodes)
        at = [n for n, name in enumerate(topology.order) if chosen is None or name in chosen]
        self.names: tuple[str, ...] = tuple(topology.order[n] for n in at)
        self._node = fleet.codes["node"]
        self._selector = fleet.codes["selector"]
        self._anywhere = fleet.anywhere
        self._codes = topology.order_codes[at]
        """(N,) negative for nodes that no device names"""
        self.codes = self._local = len(fleet.words.nodes.values)
        """How many codes of nodes the fleet has"""
        self._selectors = len(fleet.words.selectors.values)
        self._pairs = self._selected(world, np.array(at, dtype=np.int64))
        operations = fleet.codes["operations"] >= 0
        self._special: Mask | None = operations if operations.any() else None
        """(D,) devices for which a node needs a feature"""
        self._featured = np.array(
            [SKIP_OPERATIONS in topology.nodes[name].features for name in self.names], dtype=np.bool_
        )

    def _selected(self, world: Snapshot, at: Amounts) -> tuple[Amounts, Codes]:
        """(M,) nodes and (M,) selectors that match them, all such pairs."""
        if not (self._selector >= 0).any():
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int32)
        places, codes = world.topology.selected()
        position = np.full(len(world.topology.order), -1, dtype=np.int64)
        position[at] = np.arange(len(at))
        mine = position[places] >= 0
        return position[places][mine], codes[mine]

    def counts(self, mask: Mask) -> Amounts:
        """(N,) how many devices of `mask` (D,) each node reaches."""
        return self.table(mask.astype(np.int64), 2)[1]

    def table(self, kind: Amounts, kinds: int) -> Amounts:
        """(kinds, N) how many devices of each kind, given per device (D,), each node reaches."""
        if self._special is None:
            return self._table(kind, kinds)
        plain = self._table(np.where(self._special, kinds, kind), kinds + 1)[:kinds]
        special = self._table(np.where(self._special, kind, kinds), kinds + 1)[:kinds]
        return plain + np.where(self._featured, special, 0)

    def _table(self, kind: Amounts, kinds: int) -> Amounts:
        wide = self._local + 1
        code = np.where(self._node >= 0, self._node, self._local)
        local = np.bincount(kind * wide + code, minlength=kinds * wide).reshape(kinds, wide)
        found = np.where(self._codes >= 0, local[:, np.maximum(self._codes, 0)], 0)
        found += np.bincount(kind[self._anywhere], minlength=kinds)[:, np.newaxis]
        nodes, codes = self._pairs
        if len(nodes):
            used = self._selector >= 0
            wide = self._selectors
            selected = np.bincount(kind[used] * wide + self._selector[used], minlength=kinds * wide)
            for number in range(kinds):
                np.add.at(found[number], nodes, selected.reshape(kinds, wide)[number, codes])
        return found

    def reached(self, nodes: Mask | None = None) -> Mask:
        """(D,) devices that at least one of some nodes (N,) reaches; None is all N."""
        chosen = np.ones(len(self.names), dtype=np.bool_) if nodes is None else nodes
        found = self._reached(chosen)
        if self._special is not None:
            found = np.where(self._special, self._reached(chosen & self._featured), found)
        return found

    def _reached(self, chosen: Mask) -> Mask:
        known = np.zeros(self._local + 1, dtype=np.bool_)
        known[self._codes[chosen & (self._codes >= 0)]] = True  # the last stands for "no node"
        found = known[self._node]
        if chosen.any():
            found = found | self._anywhere
        nodes, codes = self._pairs
        if len(nodes):
            matched = np.zeros(self._selectors + 1, dtype=np.bool_)
            matched[codes[chosen[nodes]]] = True
            found = found | matched[self._selector]
        return found

    def by_code(self, values: np.ndarray, otherwise: int) -> Amounts:
        """(N,) what is given by the fleet's code of a node; `otherwise` for nodes that no device names."""
        if not len(values):
            return np.full(len(self.names), otherwise, dtype=np.int64)
        return np.where(self._codes >= 0, values[np.maximum(self._codes, 0)], otherwise)

    def code(self, number: int) -> int:
        """The fleet's code of a node; negative if no device names it."""
        return int(self._codes[number])

    def at(self, number: int) -> Mask:
        """(D,) devices that one node reaches."""
        chosen = np.zeros(len(self.names), dtype=np.bool_)
        chosen[number] = True
        return self.reached(chosen)

    def local(self, mask: Mask) -> bool:
        """Whether every device of `mask` (D,) is bound to one node by name."""
        return bool((self._node[mask] >= 0).all())
