"""Which slices of a pool may concern a node. Pools of networks have many, most of them for other nodes."""

from collections.abc import Sequence

from reconciler.state.devices.encoding.block import Block
from reconciler.state.devices.pools.reach import Reach


class AskedBlocks:
    """The slices of one pool, by the nodes and node selectors that they and their devices name."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        self._always: list[int] = []
        self._by_node: dict[int, list[int]] = {}
        self._by_selector: dict[int, list[int]] = {}
        for at, block in enumerate(blocks):
            if not block.slice.spec.per_device_node_selection or block.anywhere.any():
                self._always.append(at)
                continue
            for of_code, name in ((self._by_node, "node"), (self._by_selector, "selector")):
                for code in set(block.column(name).tolist()):
                    if code >= 0:
                        of_code.setdefault(code, []).append(at)

    def by(self, node: Reach) -> Sequence[int]:
        """Positions of the slices that may concern a node, rising. All its selectors must be readable."""
        found = {*self._always, *self._by_node.get(node.node_code, ())}
        for code in node.codes:
            found.update(self._by_selector.get(code, ()))
        return sorted(found)
