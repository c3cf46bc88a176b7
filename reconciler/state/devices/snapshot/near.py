"""Which pools a node may see, by the names and selectors of their slices. Views of other nodes skip them."""

from collections.abc import Iterable, Sequence

import numpy as np

from reconciler.api.objects.semantics import Semantics
from reconciler.state.devices.encoding.block import Block
from reconciler.state.devices.encoding.vocabulary import Vocabulary
from reconciler.state.devices.pools.fleet import Fleet
from reconciler.state.devices.pools.pool import Pool
from reconciler.state.devices.pools.reach import Reach


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
            spec = block.slice.spec
            names: Iterable[int] = ()
            selectors: Iterable[int] = ()
            if self._rules.old and spec.shared_counters:
                self._spanning.append(at)
            elif spec.node_name:
                self._local.setdefault(spec.node_name, []).append(at)
            elif spec.all_nodes:
                self._spanning.append(at)
            elif spec.node_selector is not None:
                selectors = [block.selector]
            elif spec.per_device_node_selection:
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
    one, other = old.slice.spec, new.slice.spec
    return (
        (one.node_name, one.all_nodes, one.per_device_node_selection, old.selector)
        == (other.node_name, other.all_nodes, other.per_device_node_selection, new.selector)
        and bool(one.shared_counters) == bool(other.shared_counters)
        and (
            not one.per_device_node_selection
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
