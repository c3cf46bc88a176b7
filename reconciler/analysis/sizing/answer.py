"""The answer of a sizing, as values and as JSON. The field names are stable."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from msgspec import Struct

from reconciler.analysis.sizing.demand import Item
from reconciler.analysis.sizing.shapes import INSTANCE_TYPE, Pattern, Shape
from reconciler.analysis.world import NoFit
from reconciler.api.objects.core import Node
from reconciler.errors import Rejected


class ItemAnswer(Struct, frozen=True):
    """One item of the demand."""

    item: Item
    placed: int
    """How many fit on the fleet as it is, together with the others"""
    refused: NoFit | None
    """Why the next one does not fit on the fleet; None if all fit"""
    served_by: tuple[str, ...]
    """Shapes of which an empty node holds at least one"""
    refused_by: Mapping[str, NoFit]
    """Shape -> why an empty node of it does not hold even one"""

    @property
    def left(self) -> int:
        """How many need new nodes."""
        return self.item.count - self.placed


@dataclass(frozen=True, slots=True)
class Group:
    """Equal new nodes."""

    shape: str
    nodes: int
    holds: Pattern
    """How many of each item one of them holds"""


class Option(Struct, frozen=True):
    """Nodes that hold all that does not fit on the fleet."""

    groups: tuple[Group, ...]
    cost: Fraction
    at_least: Fraction
    """No nodes of the shapes that were considered for this option cost less; at most `cost`"""

    @property
    def nodes(self) -> dict[str, int]:
        """Shape -> number of nodes."""
        found: dict[str, int] = {}
        for group in self.groups:
            found[group.shape] = found.get(group.shape, 0) + group.nodes
        return found

    @property
    def optimal(self) -> bool:
        """Whether it is proven that nothing is cheaper."""
        return self.cost == self.at_least


class Sizing(Struct, frozen=True):
    """The whole answer."""

    items: tuple[ItemAnswer, ...]
    options: tuple[Option, ...]
    """The cheapest first; with equal costs the one with the fewest nodes. Empty if nothing is needed"""
    shapes: Mapping[str, Shape]
    """Those that were considered, by name"""

    @property
    def fits_now(self) -> bool:
        """Whether the fleet has room for all of it."""
        return not any(one.left for one in self.items)

    @property
    def unserved(self) -> tuple[ItemAnswer, ...]:
        """Items that are left and that no shape holds."""
        return tuple(one for one in self.items if one.left and not one.served_by)

    @property
    def answered(self) -> bool:
        """Whether everything fits, now or on the nodes of an option."""
        return self.fits_now or bool(self.options)


def as_json(result: Sizing) -> dict[str, Any]:
    """The whole answer."""
    best = result.options[0].nodes if result.options else {}
    return {
        "fitsNow": result.fits_now,
        "answered": result.answered,
        "addNodes": best,
        "items": [_item_as_json(one) for one in result.items],
        "options": [_option_as_json(one, result) for one in result.options],
        "shapes": [
            {
                "name": name,
                "instanceType": shape.instance_type or None,
                "cost": _number(shape.cost),
                "devices": shape.devices,
            }
            for name, shape in result.shapes.items()
        ],
    }


def _item_as_json(one: ItemAnswer) -> dict[str, Any]:
    return {
        "name": one.item.name,
        "count": one.item.count,
        "fitNow": one.placed,
        "left": one.left,
        "refused": one.refused.as_json() if one.refused is not None else None,
        "shapes": list(one.served_by),
        "refusedByShapes": {name: why.as_json() for name, why in one.refused_by.items()},
    }


def _option_as_json(option: Option, result: Sizing) -> dict[str, Any]:
    return {
        "nodes": option.nodes,
        "total": sum(option.nodes.values()),
        "cost": _number(option.cost),
        "costAtLeast": _number(option.at_least),
        "optimal": option.optimal,
        "groups": [_group_as_json(group, result) for group in option.groups],
    }


def _group_as_json(group: Group, result: Sizing) -> dict[str, Any]:
    held = {one.item.name: count for one, count in zip(result.items, group.holds, strict=True) if count}
    return {"shape": group.shape, "nodes": group.nodes, "eachHolds": held}


def _number(value: Fraction) -> float | int:
    return int(value) if value.denominator == 1 else float(value)


_NODE_CLASSES = {
    "karpenter.k8s.aws/ec2nodeclass": "EC2NodeClass",
    "karpenter.azure.com/aksnodeclass": "AKSNodeClass",
    "karpenter.kwok.sh/kwoknodeclass": "KWOKNodeClass",
}
"""Label of a node that Karpenter made -> the kind of what the label names"""
_NODE_POOL = "karpenter.sh/nodepool"
_REQUIRED = (
    INSTANCE_TYPE,
    "topology.kubernetes.io/zone",
    "kubernetes.io/arch",
    "kubernetes.io/os",
    "karpenter.sh/capacity-type",
)
"""Labels that a new node must have as the node that it is like"""
_OTHERS = ("kubernetes.io", "k8s.io", "karpenter.sh", "karpenter.k8s.aws", "karpenter.azure.com")
"""Domains of labels that a kubelet or a provider writes"""
_NODE_GROUPS = (
    "eks.amazonaws.com/nodegroup",
    "alpha.eksctl.io/nodegroup-name",
    "cloud.google.com/gke-nodepool",
    "kubernetes.azure.com/agentpool",
    "kops.k8s.io/instancegroup",
    "magnum.openstack.org/nodegroup",
)
"""Labels for the group of equal nodes that a node is in"""


def node_claims(option: Option, shapes: Mapping[str, Shape]) -> Iterator[dict[str, Any]]:
    """A NodeClaim of Karpenter for each new node. Raises Rejected for a shape that Karpenter did not make."""
    for name, count in option.nodes.items():
        claim = _node_claim(shapes[name].node)
        yield from [claim] * count


def _node_claim(node: Node) -> dict[str, Any]:
    labels, name = node.metadata.labels, node.key.name
    kind_label = _label(node, _NODE_CLASSES, "Karpenter has no instances like it")
    _label(node, (INSTANCE_TYPE,), "Karpenter could take any instance")
    required = [key for key in _REQUIRED if labels.get(key)]
    kept = {key: text for key, text in labels.items() if key == _NODE_POOL or not _is_of_others(key)}
    taints = [one.model_dump(mode="json", by_alias=True, exclude_defaults=True) for one in node.spec.taints]
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"generateName": f"{name[:200]}-", **({"labels": kept} if kept else {})},
        "spec": {
            "nodeClassRef": {
                "group": kind_label.partition("/")[0],
                "kind": _NODE_CLASSES[kind_label],
                "name": labels[kind_label],
            },
            "requirements": [{"key": key, "operator": "In", "values": [labels[key]]} for key in required],
            **({"taints": taints} if taints else {}),
        },
    }


def _is_of_others(label: str) -> bool:
    domain, slash, _ = label.partition("/")
    return bool(slash) and any(domain == one or domain.endswith(f".{one}") for one in _OTHERS)


def node_groups(option: Option, shapes: Mapping[str, Shape]) -> list[dict[str, Any]]:
    """By how many nodes each group grows. Raises Rejected for a shape that is in no known group."""
    found: dict[str, int] = {}
    for name, count in option.nodes.items():
        node = shapes[name].node
        group = node.metadata.labels[_label(node, _NODE_GROUPS, "its group is not known")]
        found[group] = found.get(group, 0) + count
    return [{"id": group, "delta": count} for group, count in found.items()]


def _label(node: Node, wanted: Mapping[str, str] | tuple[str, ...], why: str) -> str:
    """The first of these labels that a node has. Raises Rejected."""
    found = next((key for key in wanted if node.metadata.labels.get(key)), "")
    if not found:
        raise Rejected(f"node {node.key.name} has none of the labels {', '.join(wanted)}, so {why}")
    return found
