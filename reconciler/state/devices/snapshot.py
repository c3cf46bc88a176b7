"""Frozen snapshots of the fleet. Every decision reads one; it is valid while nothing that it used changes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from kernels.types import Codes, Mask, Rows
from reconciler.api.objects.claims import ALL, DeviceClass, ResourceClaim
from reconciler.api.objects.meta import DeviceID
from reconciler.api.objects.model import value
from reconciler.api.objects.semantics import Semantics
from reconciler.state.caches import Caches
from reconciler.state.devices.encoding.vocabulary import UNKNOWN, Vocabulary
from reconciler.state.devices.fleet import Fleet
from reconciler.state.devices.node_views import NearPools, SelectedNodes, are_seen_alike
from reconciler.state.devices.occupancy import Occupancy
from reconciler.state.devices.pool import PoolOnNode, Usable
from reconciler.state.devices.reach import NodeInfo, Reach


@dataclass(frozen=True, slots=True, eq=False)
class NodeSubset:
    """Candidate nodes. Equal to another subset, or a sequence, with the same names in the same order."""

    order: tuple[str, ...]
    """`Topology.order`"""
    mask: Mask
    """(nodes,) read-only"""
    _hash: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.mask.setflags(write=False)
        object.__setattr__(self, "_hash", hash(self.mask.tobytes()))

    def __iter__(self) -> Iterator[str]:
        return (self.order[at] for at in np.flatnonzero(self.mask).tolist())

    def __len__(self) -> int:
        return int(np.count_nonzero(self.mask))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if isinstance(other, NodeSubset) and self.order is other.order:
            return bool((self.mask == other.mask).all())
        return isinstance(other, NodeSubset | Sequence) and tuple(self) == tuple(other)


Array = TypeVar("Array", bound=np.ndarray[Any, Any])


@value(eq=False)
class View:
    """The part of the fleet that one node can use."""

    fleet: Fleet
    rules: Semantics
    node: NodeInfo
    pools: tuple[PoolOnNode, ...]
    """In first-fit order (POOL-14), unusable ones included (POOL-8)"""
    rows: Rows
    """(n,) rows of the fleet that the node's slices offer, in first-fit order"""
    here: Mask
    """(n,) whether the node reaches the device itself (SEL-4)"""
    span: slice | None
    """The same rows as a range, if they are contiguous"""
    whole: bool
    """Whether the node reaches all devices because their pools are its alone; else `here` says"""
    caches: Caches = field(default_factory=Caches, repr=False)
    """Values derived from this view; they do not depend on the holds"""

    def of(self, column: Array) -> Array:
        """(n, ...) the node's rows of a fleet-wide column; no copy if they are contiguous."""
        return column[self.rows if self.span is None else self.span]  # type: ignore[return-value]

    def row(self, at: int) -> int:
        """The fleet row of the device at a position in the view."""
        return self.span.start + at if self.span is not None else int(self.rows[at])

    @property
    def invalid(self) -> PoolOnNode | None:
        """The first pool that breaks a rule."""
        return next((pool for pool in self.pools if pool.usable is Usable.INVALID), None)


class NodeOrder(Struct, frozen=True, eq=False):
    """The nodes in the order in which they are tried."""

    names: tuple[str, ...]
    codes: Codes
    """(nodes,) the fleet's codes of `names`; negative for nodes that no slice names"""
    place_of: Rows
    """(N + 1,) node code -> position in `names`; -1 for names without a node"""

    @classmethod
    def of(cls, names: tuple[str, ...], vocabulary: Vocabulary) -> "NodeOrder":
        """The order with the codes of a vocabulary, which another thread may extend meanwhile."""
        known = len(vocabulary.nodes.values)
        codes = np.array([vocabulary.nodes.find(name) for name in names], dtype=np.int32)
        codes[codes >= known] = UNKNOWN
        place_of = np.full(known + 1, -1, dtype=np.intp)
        place_of[codes[codes >= 0]] = np.flatnonzero(codes >= 0)
        return cls(names, codes, place_of)


@dataclass(frozen=True, eq=False)
class Topology:
    """The fleet and the nodes. A view is computed on first use and kept."""

    fleet: Fleet
    nodes: Mapping[str, NodeInfo]
    rules: Semantics
    ordered: NodeOrder
    near: NearPools = field(repr=False)
    selected: SelectedNodes = field(repr=False)
    caches: Caches = field(default_factory=Caches, repr=False)
    """Values derived from the fleet and the nodes together"""
    _views: dict[str, View] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls,
        fleet: Fleet,
        nodes: Mapping[str, NodeInfo],
        rules: Semantics,
        order: tuple[str, ...] = (),
        previous: "Topology | None" = None,
        replaced: Sequence[int] | None = None,
    ) -> "Topology":
        """The topology of a fleet and nodes, tried in a given order, or sorted by name.

        It shares with the previous topology what is the same. `replaced` are the positions of the pools in
        which the fleets differ, if all others are at the same place; otherwise None.
        """
        names = order or (_names(nodes, previous) if previous is not None else tuple(sorted(nodes)))
        ordered = near = selected = None
        if previous is not None and previous.fleet.vocabulary is fleet.vocabulary:
            known = previous.ordered
            if names is known.names and len(known.place_of) == len(fleet.vocabulary.nodes.values) + 1:
                ordered = known
            if previous.fleet is fleet or (
                replaced is not None
                and all(are_seen_alike(previous.fleet.pools[at], fleet.pools[at]) for at in replaced)
            ):
                near = previous.near
            if previous.selected.answers(fleet, nodes, names):
                selected = previous.selected
        return cls(
            fleet,
            nodes,
            rules,
            ordered or NodeOrder.of(names, fleet.vocabulary),
            near or NearPools(fleet, rules),
            selected or SelectedNodes(fleet, nodes, names),
        )

    @property
    def order(self) -> tuple[str, ...]:
        """Names of all nodes in the order in which they are tried."""
        return self.ordered.names

    @property
    def order_codes(self) -> Codes:
        """(nodes,) node codes of `order`; negative for nodes that no slice names"""
        return self.ordered.codes

    @property
    def place_of(self) -> Rows:
        """(N + 1,) node code -> position in `order`; -1 for names without a node"""
        return self.ordered.place_of

    def view(self, name: str) -> View:
        """The view of a node. Raises Rejected if a needed selector cannot be parsed (NM-1)."""
        found = self._views.get(name)
        if found is None:
            found = self._views[name] = self._build_view(self.nodes[name])
        return found

    def _build_view(self, node: NodeInfo) -> View:
        reach, fleet = Reach(node, self.fleet.vocabulary), self.fleet
        near = self.near.of(node.name, reach)
        found = [(at, pool) for at in near if (pool := fleet.pools[at].on(reach, self.rules)) is not None]
        if len(found) == 1:  # most nodes
            at, pool = found[0]
            first, span = fleet.start.item(at), pool.span
            if span is None:
                rows = pool.rows + first
            else:
                span = slice(first + span.start, first + span.stop)
                rows = np.arange(span.start, span.stop, dtype=np.intp)
            return View(fleet, self.rules, node, (pool,), rows, pool.here, span, pool.whole)
        found.sort(key=lambda entry: (entry[1].has_binding_conditions, entry[0]))
        rows = _joined([pool.rows + fleet.start[at] for at, pool in found], np.intp)
        return View(
            fleet=fleet,
            rules=self.rules,
            node=node,
            pools=tuple([pool for _, pool in found]),
            rows=rows,
            here=_joined([pool.here for _, pool in found], np.bool_),
            span=_span(rows),
            whole=all(pool.whole for _, pool in found),
        )

    def fork(self) -> "Topology":
        """The same fleet and nodes with separate caches and views. Immutable parts are shared."""
        topology = copy(self)  # building it again would go through every pool
        object.__setattr__(topology, "fleet", self.fleet.fork())
        object.__setattr__(topology, "caches", self.caches.fork())
        object.__setattr__(topology, "_views", {})
        return topology


def _names(nodes: Mapping[str, NodeInfo], previous: Topology) -> tuple[str, ...]:
    """The names in order, the same object if nodes were neither added nor removed."""
    if nodes is previous.nodes or nodes.keys() == previous.nodes.keys():
        return previous.order
    return tuple(sorted(nodes))


def _joined(pieces: list[np.ndarray[Any, Any]], dtype: type) -> np.ndarray[Any, Any]:
    if len(pieces) == 1:
        return pieces[0]
    return np.concatenate(pieces) if pieces else np.zeros(0, dtype=dtype)


def _span(rows: Rows) -> slice | None:
    if not len(rows) or np.count_nonzero(rows[1:] - rows[:-1] != 1):
        return None
    return slice(int(rows[0]), int(rows[-1]) + 1)


class Snapshot(Struct, frozen=True):
    """Everything that a decision depends on, except the claims."""

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
        """The same snapshot for another thread, with separate caches."""
        return replace(self, topology=self.topology.fork())


def still_valid(
    node: str, devices: Iterable[DeviceID], before: Snapshot, now: Snapshot, *, whole: bool = False
) -> bool:
    """Whether devices chosen together on one snapshot can still be allocated on a later one, on that node.

    The check is sound but not complete. The pools of the devices, the node and the classes must be unchanged.
    The holds of the devices, their counter sets and their exclusion must be unchanged too. Other devices may
    have become free in between; the choice is then as good as an earlier one. `whole` requires that no slice
    has changed: a request for all devices must also get new ones.
    """
    return (
        before.classes is now.classes
        and not (whole and before.fleet is not now.fleet)
        and before.topology.nodes.get(node) == now.topology.nodes.get(node)
        and all(_is_untouched(device, before, now) for device in devices)
    )


def wants_all(claim: ResourceClaim) -> bool:
    """Whether a claim requests all devices that match, so that it must also get new ones."""
    return any(
        part.allocation_mode == ALL
        for request in claim.spec.devices.requests
        for part in (request.exactly, *request.first_available)
        if part is not None
    )


def _is_untouched(device: DeviceID, before: Snapshot, now: Snapshot) -> bool:
    at, place = before.fleet.index.get(device.pool_id), now.fleet.index.get(device.pool_id)
    if at is None or place is None or before.fleet.pools[at] is not now.fleet.pools[place]:
        return False
    rows = zip(before.fleet.rows_of(device), now.fleet.rows_of(device), strict=True)
    return all(_is_same(old, new, before, now) for old, new in rows)


def _is_same(old: int, new: int, before: Snapshot, now: Snapshot) -> bool:
    """Whether a device of an unchanged pool is unchanged. Its row may differ."""
    then, later = before.occupancy, now.occupancy
    return bool(
        then.held[old] == later.held[new]
        and then.sharing[old] == later.sharing[new]
        and then.fits[old] == later.fits[new]
        and (then.open is None or then.open[old]) == (later.open is None or later.open[new])
        and then.consumed.get(old) == later.consumed.get(new)
        and then.locks.values[then.lock[old]] == later.locks.values[later.lock[new]]
        # Taint rules change taints without changing the pool.
        and before.fleet.codes["taints"][old] == now.fleet.codes["taints"][new]
        and _left(old, before) == _left(new, now)
    )


def _left(row: int, snapshot: Snapshot) -> list[list[int]]:
    """What is left of a device's counter sets, without trailing zeros, since fleets differ in width."""
    sets = snapshot.fleet.sets[row]
    amounts: list[list[int]] = snapshot.occupancy.left[sets[sets >= 0]].tolist()
    width = max((at + 1 for of_set in amounts for at, left in enumerate(of_set) if left), default=0)
    return [of_set[:width] for of_set in amounts]
