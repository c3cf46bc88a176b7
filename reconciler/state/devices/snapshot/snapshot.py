"""One frozen picture of the fleet and of what is held; every decision is made from one."""

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from kernels.types import Codes, Mask, Rows
from reconciler.api.objects.claims import DeviceClass
from reconciler.api.objects.semantics import Semantics
from reconciler.api.objects.value import value
from reconciler.state.caches import Cache, Caches, share
from reconciler.state.devices.occupancy.occupancy import Occupancy
from reconciler.state.devices.pools.fleet import Fleet
from reconciler.state.devices.pools.pool import Pool, PoolOnNode, Usable
from reconciler.state.devices.pools.reach import NodeInfo, Reach

Array = TypeVar("Array", bound=np.ndarray[Any, Any])


@value(eq=False)
class View:
    """The fleet as one node sees it."""

    fleet: Fleet
    rules: Semantics
    node: NodeInfo
    pools: tuple[PoolOnNode, ...]
    """In the order of first fit (POOL-14), unusable ones included (POOL-8)"""
    rows: Rows
    """(n,) rows of the fleet that the node's slices offer, in the order of first fit"""
    here: Mask
    """(n,) whether the node reaches the device itself (SEL-4)"""
    span: slice | None
    """The same rows as a range, where they lie together"""
    caches: Caches = field(default_factory=Caches, repr=False)
    """What was derived from this view, whatever is held"""

    def of(self, column: Array) -> Array:
        """(n, ...) the node's rows of a fleet-wide column; without a copy where they lie together."""
        return column[self.rows if self.span is None else self.span]  # type: ignore[return-value]

    def row(self, at: int) -> int:
        """The row of the fleet of one device, by its position in the view."""
        return self.span.start + at if self.span is not None else int(self.rows[at])

    @property
    def invalid(self) -> PoolOnNode | None:
        """The first pool that breaks a rule."""
        return next((pool for pool in self.pools if pool.usable is Usable.INVALID), None)


@dataclass(frozen=True, eq=False)
class Topology:
    """The fleet and the nodes. Views are worked out when first asked for, and kept."""

    fleet: Fleet
    nodes: Mapping[str, NodeInfo]
    rules: Semantics
    order: tuple[str, ...] = ()
    """Names of all nodes in the order in which they are tried: sorted, unless another order is given"""
    order_codes: Codes = field(default_factory=lambda: np.zeros(0, dtype=np.int32), repr=False)
    """(nodes,) their codes in the fleet's columns; negative for nodes that no slice names"""
    place_of: Rows = field(default_factory=lambda: np.zeros(0, dtype=np.intp), repr=False)
    """(N + 1,) by the fleet's code of a node, its position in `order`; -1 for names that are no nodes"""
    caches: Caches = field(default_factory=Caches, repr=False)
    """What was derived from the fleet and the nodes together"""
    _views: dict[str, View] = field(default_factory=dict, repr=False)
    _local: dict[str, list[int]] = field(default_factory=dict, repr=False)
    _selecting: dict[int, list[int]] = field(default_factory=dict, repr=False)
    _spanning: list[int] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        find = self.fleet.words.nodes.find
        object.__setattr__(self, "order", self.order or tuple(sorted(self.nodes)))
        codes = np.array([find(name) for name in self.order], dtype=np.int32)
        object.__setattr__(self, "order_codes", codes)
        place_of = np.full(len(self.fleet.words.nodes.values) + 1, -1, dtype=np.intp)
        place_of[codes[codes >= 0]] = np.flatnonzero(codes >= 0)
        object.__setattr__(self, "place_of", place_of)
        for at, pool in enumerate(self.fleet.pools):
            nodes = None if self.rules.old and pool.counters.sets else pool.nodes
            if nodes is None:
                self._enter(at, pool)
            else:
                for node in nodes:
                    self._local.setdefault(node, []).append(at)

    def _enter(self, at: int, pool: Pool) -> None:
        """Note which nodes a pool may concern, by name or by selector, so that others need not ask it."""
        vocabulary = self.fleet.words
        for block in pool.blocks:
            spec = block.slice.spec
            names: Iterable[int] = ()
            selectors: Iterable[int] = ()
            if self.rules.old and spec.shared_counters:
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
                names = np.unique(block.column("node")).tolist()
                selectors = np.unique(block.column("selector")).tolist()
            for code in names:
                if code >= 0:
                    self._local.setdefault(vocabulary.nodes.values[code], []).append(at)
            for code in selectors:
                if code in vocabulary.selector_index.unreadable:  # whoever looks has to meet that
                    self._spanning.append(at)
                elif code >= 0:
                    self._selecting.setdefault(code, []).append(at)

    def selected(self) -> tuple[Codes, Codes]:
        """(M,) positions in `order` and (M,) codes of the selectors that match that node, all such pairs.

        A selector that cannot be read counts as matching, so that its error is met.
        """
        return _SELECTED.of(self)

    def view(self, name: str) -> View:
        """What a node sees. Raises Rejected if a selector that has to be looked at cannot be read (NM-1)."""
        if name not in self._views:
            self._views[name] = self._look(self.nodes[name])
        return self._views[name]

    def _look(self, node: NodeInfo) -> View:
        reach = Reach(node, self.fleet.words)
        found = [
            (at, pool) for at in self._near(node.name, reach) if (pool := self._pool(at, reach)) is not None
        ]
        found.sort(key=lambda entry: (entry[1].waits, entry[0]))
        rows = _joined([pool.rows + self.fleet.start[at] for at, pool in found], np.intp)
        return View(
            fleet=self.fleet,
            rules=self.rules,
            node=node,
            pools=tuple(pool for _, pool in found),
            rows=rows,
            here=_joined([pool.here for _, pool in found], np.bool_),
            span=_span(rows),
        )

    def _near(self, name: str, reach: Reach) -> Sequence[int]:
        """The pools that may concern a node, in order."""
        near = {*self._local.get(name, ()), *self._spanning}
        if self._selecting:
            for code in np.flatnonzero(reach.matching).tolist():
                near.update(self._selecting.get(code, ()))
        return sorted(near)

    def _pool(self, at: int, reach: Reach) -> PoolOnNode | None:
        return self.fleet.pools[at].on(reach, self.rules)

    def fork(self) -> "Topology":
        """The same fleet and nodes with caches and views of their own. What never changes is shared."""
        topology = copy(self)  # not built again, which would ask every pool for its nodes
        object.__setattr__(topology, "fleet", self.fleet.fork())
        object.__setattr__(topology, "caches", self.caches.fork())
        object.__setattr__(topology, "_views", {})
        return topology


def _select(topology: Topology) -> tuple[Codes, Codes]:
    fleet = topology.fleet
    index = fleet.words.selector_index
    used = np.zeros(len(fleet.words.selectors.values) + 1, dtype=np.bool_)
    used[fleet.codes["selector"]] = True
    used[-1] = False  # where code -1 went
    unreadable = [code for code in index.unreadable if used[code]]
    codes = []
    for name in topology.order if used.any() else ():
        found = index.matching(name, dict(topology.nodes[name].labels))
        found[unreadable] = True
        codes.append(np.flatnonzero(found & used[:-1]))
    places = np.repeat(np.arange(len(codes)), [len(of_node) for of_node in codes])
    joined = np.concatenate(codes) if codes else places
    return places.astype(np.int32), joined.astype(np.int32)


_SELECTED = Cache(_select, on_fork=share)


def _joined(pieces: list[np.ndarray[Any, Any]], dtype: type) -> np.ndarray[Any, Any]:
    if len(pieces) == 1:
        return pieces[0]
    return np.concatenate(pieces) if pieces else np.zeros(0, dtype=dtype)


def _span(rows: Rows) -> slice | None:
    if not len(rows) or np.count_nonzero(rows[1:] - rows[:-1] != 1):
        return None
    return slice(int(rows[0]), int(rows[-1]) + 1)


@value()
class Snapshot:
    """Everything a decision depends on besides the claims themselves."""

    version: int
    topology: Topology
    occupancy: Occupancy
    classes: Mapping[str, DeviceClass]

    @property
    def fleet(self) -> Fleet:
        return self.topology.fleet

    @property
    def rules(self) -> Semantics:
        return self.topology.rules

    def fork(self) -> "Snapshot":
        """The same picture for another thread, which then derives values for itself alone."""
        return replace(self, topology=self.topology.fork())
