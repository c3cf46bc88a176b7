"""The new nodes of an option in the form that node autoscalers take.

Sources, read in November 2026: `NodeClaim` of karpenter.sh/v1, which may be created without a NodePool
(Karpenter 1.15, concepts/nodeclaims), and `NodeGroupIncreaseSizeRequest` of cluster-autoscaler's external
provider.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.analysis.sizing.answer import Option
from reconciler.analysis.sizing.patterns import INSTANCE_TYPE, Shape
from reconciler.api.objects.core import Node
from reconciler.errors import Rejected

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
