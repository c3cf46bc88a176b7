"""Shapes: the nodes that could be added, each as one empty node with its slices."""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

from msgspec import Struct

from reconciler.api.objects.core import Node
from reconciler.api.objects.meta import PoolID
from reconciler.api.objects.slices import ResourceSlice
from reconciler.state.nodes.taints import CLOSING

INSTANCE_TYPE = "node.kubernetes.io/instance-type"


class Shape(Struct, frozen=True, eq=False):
    """A node that could be added, as often as needed."""

    name: str
    """Of the node that serves as the template"""
    node: Node
    slices: tuple[ResourceSlice, ...]
    """Those that belong to this node alone"""
    cost: Fraction = Fraction(1)
    """What one node costs, in any unit"""

    @property
    def devices(self) -> int:
        """How many devices one node publishes; partitions count, too."""
        return sum(len(one.spec.devices) for one in self.slices)

    @property
    def instance_type(self) -> str:
        """The label for it; empty without one."""
        return self.node.metadata.labels.get(INSTANCE_TYPE, "")


def shape_of(node: Node, slices: Iterable[ResourceSlice], cost: Fraction = Fraction(1)) -> Shape:
    """A node of the fleet as a template: ready and not cordoned, whatever it is now.

    Devices that other nodes reach, too, do not come with a new node.
    """
    name = node.key.name
    spec = node.spec.model_copy(
        update={
            "unschedulable": None,
            "taints": tuple(taint for taint in node.spec.taints if taint.key not in CLOSING),
        }
    )
    status = node.status.model_copy(update={"conditions": ()})
    own = tuple(_complete(one for one in slices if one.spec.node_name == name))
    return Shape(name, node.model_copy(update={"spec": spec, "status": status}), own, cost)


def _complete(slices: Iterable[ResourceSlice]) -> Iterator[ResourceSlice]:
    """The newest slices of each pool, as a whole pool: that of the fleet may have slices of other nodes."""
    pools: dict[PoolID, list[ResourceSlice]] = {}
    for one in slices:
        pools.setdefault(one.pool_id, []).append(one)
    for found in pools.values():
        newest = max(one.spec.pool.generation for one in found)
        kept = [one for one in found if one.spec.pool.generation == newest]
        for one in kept:
            pool = replace(one.spec.pool, resource_slice_count=len(kept))
            same = pool == one.spec.pool
            yield one if same else one.model_copy(update={"spec": replace(one.spec, pool=pool)})


def distinct_shapes(nodes: Sequence[Node], slices: Iterable[ResourceSlice]) -> Iterator[Shape]:
    """One shape for each kind of node with devices: nodes are alike if they offer and publish as much."""
    by_node: dict[str, list[ResourceSlice]] = {}
    for one in slices:
        if one.spec.node_name:
            by_node.setdefault(one.spec.node_name, []).append(one)
    seen: set[Hashable] = set()
    for node in sorted(nodes, key=lambda node: node.key):
        own = by_node.get(node.key.name)
        if not own:
            continue
        likeness = _likeness(node, own)
        if likeness not in seen:
            seen.add(likeness)
            yield shape_of(node, own)


def _likeness(node: Node, slices: Iterable[ResourceSlice]) -> Hashable:
    published: dict[tuple[str, int], int] = {}
    counters: dict[tuple[str, str], int] = {}
    for one in slices:
        for device in one.spec.devices:
            size = (one.spec.driver, len(device.consumes_counters))
            published[size] = published.get(size, 0) + 1
        for set_ in one.spec.shared_counters:
            for name, counter in set_.counters.items():
                key = (one.spec.driver, name)
                counters[key] = counters.get(key, 0) + counter.value.nanos
    offers = {name: amount.nanos for name, amount in node.status.allocatable.items()}
    kinds = (
        node.metadata.labels.get(INSTANCE_TYPE, ""),
        *map(frozenset, (published.items(), counters.items())),
    )
    return (*kinds, frozenset(offers.items()))
