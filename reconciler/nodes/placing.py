"""On which nodes the claims of a pod may be decided: where kube-scheduler can follow, as far as we can tell.

Looked at: node selector, required node affinity, taints, room for what the pod requests, and where claims
are that it holds already. Not looked at: host ports, affinity and spread between pods, volumes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kernels.types import Mask
from reconciler.inventory.chosen import Chosen
from reconciler.inventory.snapshot import Topology
from reconciler.nodes.demand import demand
from reconciler.nodes.table import Nodes
from reconciler.objects.claims import DeviceClass
from reconciler.objects.core import Pod
from reconciler.objects.nodeselector import NodeSelector

_IMPLICIT = "deviceclass.resource.kubernetes.io/"


@dataclass(frozen=True, slots=True)
class Places:
    """Where a pod could go."""

    nodes: Chosen | None
    """None for anywhere"""
    crowded: bool
    """Whether a node was left out for want of room alone: what other pods take matters then"""


def places(
    pod: Pod, held: Sequence[NodeSelector], nodes: Nodes, world: Topology, waived: frozenset[str]
) -> Places:
    """The nodes on which a pod can run and use what it holds, which the selectors `held` bound.

    `waived` are resources that a node without them gets by other means; see `backed`. Raises Rejected
    for an affinity or a selector that cannot be read.
    """
    suiting = nodes.labelled(pod) & nodes.tolerated(pod) & nodes.matching(held)
    fitting = suiting & nodes.room.fits(demand(pod), waived, but=pod.key)
    suiting, fitting = nodes.in_order(suiting, world.order), nodes.in_order(fitting, world.order)
    crowded = not np.array_equal(suiting, fitting)
    return Places(None if fitting.all() else Chosen(world.order, fitting), crowded)


def backed(classes: Mapping[str, DeviceClass], pod: Pod) -> frozenset[str]:
    """Resources of a pod that kube-scheduler turns into claims where a node does not offer them (EXT-1)."""
    extended = [name for name in demand(pod) if "/" in name]
    if not extended:
        return frozenset()
    names = {found.spec.extended_resource_name for found in classes.values()}
    return frozenset(
        name
        for name in extended
        if name in names or (name.startswith(_IMPLICIT) and name.removeprefix(_IMPLICIT) in classes)
    )


def account(
    pod: Pod, held: Sequence[NodeSelector], nodes: Nodes, world: Topology, waived: frozenset[str]
) -> str:
    """Why nodes are left out, each under the first thing that stands against it; empty if none is.

    In the words of kube-scheduler: `2 of 5 nodes suit the pod: 1 Insufficient cpu, 2 with untolerated taint`.
    """
    left = np.ones(len(world.order), dtype=np.bool_)
    reasons: dict[str, int] = {}

    def strike(reason: str, out: Mask) -> None:
        out = left & nodes.in_order(out, world.order)
        if out.any():
            reasons[reason] = int(np.count_nonzero(out))
            left[out] = False

    strike("outside node selector or affinity", ~nodes.labelled(pod))
    strike("away from other claims of the pod", ~nodes.matching(held))
    strike("with untolerated taint", ~nodes.tolerated(pod))
    for resource, short in nodes.room.short_of(demand(pod), waived, but=pod.key).items():
        strike("Too many pods" if resource == "pods" else f"Insufficient {resource}", short)
    if not reasons:
        return ""
    listed = ", ".join(f"{count} {reason}" for reason, count in reasons.items())
    return f"{int(np.count_nonzero(left))} of {len(left)} nodes suit the pod: {listed}"


def against(pod: Pod, node: str, nodes: Nodes, world: Topology, waived: frozenset[str]) -> list[str]:
    """What stands against one node for a pod now, and by how much."""
    if node not in world.nodes:
        return ["the node is gone"]
    row = world.order.index(node)
    found = []
    if not nodes.in_order(nodes.labelled(pod), world.order)[row]:
        found.append("outside node selector or affinity of the pod")
    if not nodes.in_order(nodes.tolerated(pod), world.order)[row]:
        found.append("a taint that the pod does not tolerate")
    wanted = demand(pod)
    for resource, short in nodes.room.short_of(wanted, waived, but=pod.key).items():
        if nodes.in_order(short, world.order)[row]:
            own = nodes.room.charged(pod.key)
            left = nodes.room.left(node, resource)
            left += own.amounts.get(resource, 0) if own is not None and own.node == node else 0
            unit = "m" if resource == "cpu" else ""
            found.append(f"Insufficient {resource}: {wanted[resource]}{unit} wanted, {left}{unit} left")
    return found
