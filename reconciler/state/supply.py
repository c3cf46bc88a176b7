"""What there is to give: slices, classes, nodes and taint rules, and the fleet and topology made of them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from reconciler.api.objects.claims import DeviceClass
from reconciler.api.objects.core import Node
from reconciler.api.objects.meta import DeviceID, PoolID
from reconciler.api.objects.semantics import NODE_ALLOCATABLE, TAINT_RULES, TAINTS, Semantics
from reconciler.api.objects.slices import DeviceTaintRule, ResourceSlice
from reconciler.state.devices.encoding.vocabulary import NodeUse
from reconciler.state.devices.fleet import Fleet, Layout
from reconciler.state.devices.inventory import Assembled, Assembly, Inventory
from reconciler.state.devices.ledger import Drawn
from reconciler.state.devices.reach import NodeInfo
from reconciler.state.devices.snapshot import Snapshot, Topology
from reconciler.state.devices.tainting import Tainting, taintings


class Supply:
    """Who holds what does not matter here. Methods that change something return whether they did."""

    def __init__(
        self,
        rules: Semantics,
        retained: Callable[[PoolID], Mapping[str, Drawn]],
        snapshot: Snapshot | None = None,
    ) -> None:
        """`retained` is that of `Inventory`. `snapshot` has the content of a supply whose slices never
        change, with the taints of taint rules, of which it has none itself.
        """
        self._rules = rules
        self.inventory = Inventory(rules, retained, None if snapshot is None else snapshot.fleet)
        self._topology = None if snapshot is None else snapshot.topology
        self._nodes: dict[str, NodeInfo] = {} if snapshot is None else dict(snapshot.topology.nodes)
        self._classes: dict[str, DeviceClass] = {} if snapshot is None else dict(snapshot.classes)
        self._taint_rules: dict[str, DeviceTaintRule] = {}
        self._shelves: dict[str, dict[str, Any]] = {
            "Node": self._nodes,
            "DeviceClass": self._classes,
            "DeviceTaintRule": self._taint_rules,
        }
        """Kind -> name -> what is kept of an object"""
        self._views: dict[str, Mapping[str, Any]] = (
            {} if snapshot is None else {"Node": snapshot.topology.nodes}
        )
        """Kind -> its objects, frozen"""

    # -- reading

    @property
    def slices(self) -> Sequence[ResourceSlice]:
        """All slices. Each is decoded when asked for: read those of a large fleet in a thread."""
        return self.inventory.slices

    @property
    def taint_rules(self) -> tuple[DeviceTaintRule, ...]:
        """All rules, also for another thread: what changes later is not in them."""
        return tuple(self._taint_rules.values())

    @property
    def classes(self) -> Mapping[str, DeviceClass]:
        """The classes by name, frozen."""
        return self._view("DeviceClass")

    @property
    def nodes(self) -> Mapping[str, NodeInfo]:
        """The nodes by name, frozen."""
        return self._view("Node")

    def _view(self, kind: str) -> Mapping[str, Any]:
        if kind not in self._views:
            self._views[kind] = MappingProxyType(dict(self._shelves[kind]))
        return self._views[kind]

    def names(self, kind: str) -> Iterable[str]:
        """The names of all objects of a kind."""
        return self.inventory.names if kind == "ResourceSlice" else self._shelves.get(kind, ())

    @property
    def counts_device_shares(self) -> bool:
        """Whether some device uses resources of its node, and that counts (NAR-1)."""
        return bool(self.inventory.vocabulary.mapped.values) and self._rules.has(NODE_ALLOCATABLE)

    def node_uses(self, device: DeviceID) -> tuple[NodeUse, ...]:
        """How a device uses resources of its node, by the newest slice that has it."""
        blocks = [one for one in self.inventory.blocks(device.pool_id) if device.device in one.names]
        if not blocks:
            return ()
        block = max(blocks, key=lambda one: one.generation)
        code = int(block.column("mapped")[block.names.index(device.device)])
        return self.inventory.vocabulary.mapped.values[code] if code >= 0 else ()

    # -- joining

    def assembly(self) -> Assembly | None:
        """The work of joining all pools to a fleet, if that takes long; None if the next snapshot may do it.

        Any thread may run it, while the supply changes. `Store.adopt` takes the result.
        """
        return None if self._tainting() else self.inventory.assembly(self._topology, self.nodes)

    def adopt(self, assembled: Assembled) -> bool:
        """Take over what was assembled elsewhere, unless a snapshot was faster; return whether."""
        taken = self.inventory.adopt(assembled.topology.fleet, assembled.layout)
        if taken:
            self._topology = assembled.topology
        return taken

    def fleet(self) -> tuple[Fleet, Layout | None]:
        """That of `Inventory`, with the taints of rules."""
        return self.inventory.fleet(self._tainting())

    def topology(self, fleet: Fleet, layout: Layout | None) -> Topology:
        """The fleet with the nodes. It shares with the previous topology what did not change."""
        if self._topology is None or layout is not None or self._topology.nodes is not self.nodes:
            previous, replaced = self._topology, layout.replaced if layout is not None else None
            if layout is not None and previous is not None and previous.fleet is not layout.previous:
                replaced = None
            self._topology = Topology.of(fleet, self.nodes, self._rules, previous=previous, replaced=replaced)
        return self._topology

    def _tainting(self) -> tuple[Tainting, ...]:
        if not (self._taint_rules and self._rules.has(TAINTS) and self._rules.has(TAINT_RULES)):
            return ()
        return tuple(
            taintings([self._taint_rules[name] for name in sorted(self._taint_rules)], self._classes)
        )

    # -- changing

    def put(self, kind: str, thing: DeviceClass | Node | DeviceTaintRule) -> bool:
        """Add an object, or put it in the place of the one with its name."""
        shelf, name = self._shelves[kind], thing.key.name
        kept = _node_info(thing) if isinstance(thing, Node) else thing
        if shelf.get(name) == kept:  # most changes of a node are heartbeats
            return False
        shelf[name] = kept
        self._views.pop(kind, None)
        return True

    def drop(self, kind: str, name: str) -> bool:
        """Remove an object, if it is known."""
        if self._shelves[kind].pop(name, None) is None:
            return False
        self._views.pop(kind, None)
        return True

    def taints_by(self, name: str) -> bool:
        """Whether taint rules depend on a class."""
        selectors = (rule.spec.device_selector for rule in self._taint_rules.values())
        return any(one is not None and one.device_class_name == name for one in selectors)


def _node_info(node: Node) -> NodeInfo:
    return NodeInfo(node.key.name, node.metadata.labels, _features(node.status.declared_features))


@lru_cache
def _features(declared: tuple[str, ...]) -> frozenset[str]:
    """The features of a node. Most nodes have the same."""
    return frozenset(declared)
