"""The nodes of the cluster as columns, and which nodes suit a pod."""

from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from copy import deepcopy
from typing import Any, NamedTuple, TypeVar

import numpy as np

from kernels.types import Amounts, Mask, Rows
from reconciler.api.objects.changes import Change, versions
from reconciler.api.objects.core import Node, Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.selectors import LabelSelector, NodeSelector
from reconciler.errors import Rejected
from reconciler.state.caches import Forkable, Lazy, Recent, forked
from reconciler.state.devices.snapshot import NodeSubset, Topology
from reconciler.state.nodes import labels
from reconciler.state.nodes.room import Charge, NominatedRoom, Room, Wanted, amounts
from reconciler.state.on_demand import KindsOnDemand
from reconciler.state.pods.residents import Residents
from reconciler.state.volumes.available import VolumeState

Column = TypeVar("Column", bound=np.ndarray[Any, Any])

KEPT = 256
"""Masks kept, at least. A change of a node drops all of them."""


class Hosted(NamedTuple):
    """What a change of one pod may mean for pods that wait."""

    roomier: bool
    """Whether a node has more room, a free port, or a domain without a pod that keeps others away"""
    counted: bool
    """Whether affinity or spread that a decision asked about changed"""
    settled: bool = False
    """Whether a pod is bound to its decided node, or gone"""

    def __or__(self, other: object) -> "Hosted":
        """Both changes."""
        assert isinstance(other, Hosted)
        return Hosted(
            self.roomier or other.roomier, self.counted or other.counted, self.settled or other.settled
        )


HERE = Hosted(roomier=False, counted=False)
"""Nothing changed"""


class Nodes(Forkable):
    """One row for each node; rows of removed nodes are reused. Masks are (N,) by row if not stated."""

    def __init__(self, *, on_wanted: Callable[[str], None] | None = None, volumes: bool = True) -> None:
        """`on_wanted` is that of `KindsOnDemand`; None if objects that were not put do not exist. `volumes`
        says whether storage objects are considered.
        """
        self._row_of: dict[str, int] = {}
        self.room = Room(self._row_of)
        self.residents = Residents(self._row_of)
        self._soft_taints = labels.TaintSets()
        self.on_demand = KindsOnDemand(on_wanted)
        self.volumes = VolumeState(self, self._row_of, complete=on_wanted is None, considered=volumes)
        self.labels_serial = 0
        """Number of changes of nodes so far"""
        self.labels = labels.LabelColumns(self._row_of)
        self.nominated = NominatedRoom(self.room)
        self._spare: list[int] = []
        self._node: dict[str, labels.KnownNode] = {}
        self._supposed: set[str] = set()
        self._taints = labels.TaintSets()
        self._own_taints = labels.TaintSets()
        self._size = 0
        self._masks: Recent[Hashable, Mask] = Recent(KEPT)
        self._rows: tuple[tuple[str, ...], Rows] = ((), np.zeros(0, dtype=np.intp))
        self._open: tuple[Topology | None, NodeSubset | None] = (None, None)

    def fork(self) -> "Nodes":
        """The same nodes and pods for another thread, changed independently from now on."""
        made: dict[int, Any] = {}
        other = forked(self, made)
        other.on_demand = self.on_demand.fork()
        other.volumes = deepcopy(self.volumes, made)  # it refers to the rows of the nodes
        other.volumes.available.follow(other)
        return other

    @property
    def known(self) -> Sequence[Node]:
        """All nodes, with what is kept of them. Each is made when it is asked for."""
        return Lazy(tuple(self._node.values()), labels.KnownNode.node)

    def get(self, name: str) -> labels.KnownNode | None:
        """What is kept of a node."""
        return self._node.get(name)

    def note(self, change: Change) -> bool:
        """Apply a change of nodes; return whether placements may differ now. Heartbeats return False."""
        if change.kind != "Node":
            if self.residents.namespaces.note(change):
                self.residents.namespaces_changed()
                return True
            return self.volumes.note(change)
        found = versions(change, Node, (ObjectKey("", name) for name in self._node))
        changed = [self._drop(key.name) if node is None else self._put(node) for key, node in found]
        return any(changed)

    def suppose(self, node: Node) -> None:
        """Add a node that only slices name, with inferred labels. A Node object replaces it."""
        if node.key.name not in self._row_of:
            self._put(node)
            self._supposed.add(node.key.name)

    def host(self, key: ObjectKey, pod: Pod | None, node: str = "", takes: Wanted | None = None) -> Hosted:
        """Count a pod on its node, with the resources that it takes there; None if it has no node."""
        charge = None if pod is None or not node else Charge(node, takes or {})
        roomier = self.room.charge(key, charge)
        moved = self.residents.place(key, pod, node)
        freed = self.volumes.place(key, pod, node)
        return Hosted(roomier or moved.freed or freed, moved.counted, moved.settled)

    @property
    def serial(self) -> int:
        """Number of changes so far, of offers and of pods."""
        return self.room.serial + self.residents.serial

    @property
    def supposed(self) -> frozenset[str]:
        """Nodes without a Node object."""
        return frozenset(self._supposed)

    def described(self) -> Mask:
        """Nodes with a Node object."""
        mask = np.ones(self._size, dtype=np.bool_)
        mask[[self._row_of[name] for name in self._supposed]] = False
        return mask

    def open(self, topology: Topology) -> NodeSubset | None:
        """The nodes that are ready and not cordoned; None for all nodes. Cached until a node changes.

        Other taints are ignored: the tolerations of the pods that will use the claim are unknown.
        """
        if self._open[0] is not topology:
            closing = self._taints.each(lambda taints: any(taint.key in labels.CLOSING for taint in taints))
            mask = self.in_order(closing == 0, topology.order)
            self._open = topology, (None if mask.all() else NodeSubset(topology.order, mask))
        return self._open[1]

    def only(self, name: str, topology: Topology) -> NodeSubset:
        """One node, or an empty subset if there is no such node."""
        mask = np.zeros(self._size, dtype=np.bool_)
        if name in self._row_of:
            mask[self._row_of[name]] = True
        return NodeSubset(topology.order, self.in_order(mask, topology.order))

    def in_order(self, column: Column, order: tuple[str, ...]) -> Column:
        """(nodes, ...) a column over rows, reordered by these names."""
        return column.take(self.rows(order), axis=0)  # type: ignore[return-value]

    def rows(self, order: tuple[str, ...]) -> Rows:
        """(nodes,) the rows of these names. Cached for one order."""
        if self._rows[0] is not order:
            rows = np.array([self._row_of[name] for name in order], dtype=np.intp)
            self._rows = order, rows
        return self._rows[1]

    def labelled(self, pod: Pod) -> Mask:
        """Nodes that match the pod's node selector and required node affinity.

        Raises Rejected for an affinity that cannot be parsed.
        """
        mask = np.ones(self._size, dtype=np.bool_)
        if pod.spec.node_selector:
            wanted = pod.spec.node_selector
            mask &= self._cached(("labels", *sorted(wanted.items())), lambda: self.labels.have(wanted))
        affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
        required = affinity and affinity.required_during_scheduling_ignored_during_execution
        return mask & self.matching([required] if required else [])

    def matching(self, selectors: Sequence[NodeSelector]) -> Mask:
        """Nodes that match all selectors. Raises Rejected for a selector that cannot be parsed."""
        mask = np.ones(self._size, dtype=np.bool_)
        for selector in selectors:
            mask &= self._cached(selector, lambda selector=selector: self.labels.match(selector))  # type: ignore[misc]
        return mask

    def tolerated(self, pod: Pod) -> Mask:
        """Nodes whose taints the pod tolerates."""
        tolerations = pod.spec.tolerations
        return self._cached(("taints", tolerations), lambda: self._taints.tolerated(tolerations))

    def tolerated_own(self, pod: Pod) -> Mask:
        """The same for the taints of the Node objects, without those that the control plane will add."""
        tolerations = pod.spec.tolerations
        return self._cached(("own taints", tolerations), lambda: self._own_taints.tolerated(tolerations))

    def untolerated(self, pod: Pod) -> Amounts | None:
        """How many taints with `PreferNoSchedule` of each node a pod does not tolerate; None if no node has
        such taints.
        """
        own = pod.spec.tolerations
        found = self._soft_taints.each(
            lambda taints: sum(not labels.tolerated((taint,), own) for taint in taints)
        )
        return found if found.any() else None

    def label(self, name: str, key: str) -> str | None:
        """The value of a label of a node; None if there is no such label or node."""
        row = self._row_of.get(name)
        return None if row is None else self.labels.value_of(row, key)

    def selected(self, selector: LabelSelector) -> Rows:
        """(n,) the rows that a label selector selects, in order. Raises Rejected if it cannot be parsed."""
        requirements = selector.parsed.requirements
        if len(requirements) == 1 and requirements[0].operator == "In":
            return self.labels.rows_with(requirements[0].key, requirements[0].values)
        found = self.every()
        for one in requirements:
            found &= self.labels.test(one.key, one.holds)
        return np.flatnonzero(found & self._in_use())

    def usable(self, selector: NodeSelector) -> Rows:
        """(n,) the rows that the node affinity of a volume selects, in order (VOL-6).

        Names of nodes do not count, and one that cannot be parsed selects none, as in kube-scheduler.
        """
        terms = selector.node_selector_terms
        expressions = terms[0].match_expressions if len(terms) == 1 else ()
        if len(expressions) == 1 and expressions[0].operator == "In" and expressions[0].values:
            return self.labels.rows_with(expressions[0].key, expressions[0].values)
        found = np.zeros(self._size, dtype=np.bool_)
        for term in terms:
            if not term.match_expressions:
                found |= bool(term.match_fields)
                continue
            one = NodeSelector(node_selector_terms=(term.model_copy(update={"match_fields": ()}),))
            with suppress(Rejected):
                found |= self.matching([one])
        return np.flatnonzero(found & self._in_use())

    def _in_use(self) -> Mask:
        mask = np.zeros(self._size, dtype=np.bool_)
        mask[list(self._row_of.values())] = True
        return mask

    def declaring(self, features: frozenset[str]) -> Mask:
        """Nodes that declare all these features."""

        def compute() -> Mask:
            mask = np.zeros(self._size, dtype=np.bool_)
            for name, row in self._row_of.items():
                mask[row] = features <= set(self._node[name].status.declared_features)
            return mask

        return self._cached(("features", features), compute)

    def row_of(self, name: str) -> int | None:
        """The row of a node; None if there is none."""
        return self._row_of.get(name)

    def every(self) -> Mask:
        """All rows."""
        return np.ones(self._size, dtype=np.bool_)

    def _put(self, it: Node) -> bool:
        node, name = labels.KnownNode.of(it), it.metadata.name
        self._supposed.discard(name)
        before = self._node.get(name)
        if before is not None and _alike(before, node):  # most changes of a node are heartbeats
            self._node[name] = labels.KnownNode(name, before.labels, node.spec, node.status)  # no second copy
            self._soft_taints.put(self._row_of[name], labels.soft_taints(node))
            return False
        row = self._row_of.get(name)
        if row is None:
            row = self._row_of[name] = self._spare.pop() if self._spare else self._size
            self._size = max(self._size, row + 1)
            self.residents.put_node(row, name)
            self.volumes.attached.put_node(row, name)
        self._node[name] = node
        self.labels.put(row, node.labels)
        self._soft_taints.put(row, labels.soft_taints(node))
        self._taints.put(row, labels.taints_of(node))
        self._own_taints.put(row, labels.own_taints(node))
        self.room.put(row, name, amounts(node.status.allocatable))
        self._invalidate()
        return True

    def _drop(self, name: str) -> bool:
        row = self._row_of.pop(name, None)
        if row is None:
            return False
        del self._node[name]
        self._supposed.discard(name)
        self._spare.append(row)
        self.labels.drop(row)
        self._soft_taints.put(row, ())
        self.room.drop(row)
        self.residents.drop_node(row, name)
        self.volumes.attached.drop_node(row, name)
        self._invalidate()
        return True

    def _invalidate(self) -> None:
        self.labels_serial += 1
        self._masks.clear()
        self._open = (None, None)

    def _cached(self, key: Hashable, compute: Callable[[], Mask]) -> Mask:
        def made() -> Mask:
            mask = compute()
            mask.setflags(write=False)
            return mask

        return self._masks.of(key, made)


def _alike(one: labels.KnownNode, other: labels.KnownNode) -> bool:
    """Whether nothing changed that decisions know of a node. Its spec and status are shared while equal."""
    same = one.spec is other.spec and one.status is other.status
    return one.labels == other.labels and (same or relevant(one) == relevant(other))


def relevant(node: labels.KnownNode) -> tuple[object, ...]:
    """What decisions know of a node beside its pods. Heartbeats do not change it."""
    return (
        node.labels,
        labels.taints_of(node),
        labels.own_taints(node),
        node.status.allocatable,
        node.status.declared_features,
    )
