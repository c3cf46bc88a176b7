"""Taints of nodes, and which pods tolerate them. Source: core/v1, Taint and Toleration."""

from collections.abc import Iterable

from reconciler.api.objects.core import Node, Taint, Toleration

UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"

CLOSING = frozenset({UNSCHEDULABLE, NOT_READY, UNREACHABLE})
"""Taints that keep out all new pods except those of DaemonSets."""

_KEEP_OUT = ("NoSchedule", "NoExecute")


def taints_of(node: Node) -> tuple[Taint, ...]:
    """The taints that keep pods out, sorted, with those that the control plane will add.

    The control plane taints a cordoned or unready node with a delay, and not in every cluster.
    """
    found = {taint for taint in node.spec.taints if taint.effect in _KEEP_OUT}
    if node.spec.unschedulable:
        found.add(_closing(UNSCHEDULABLE))
    for condition in node.status.conditions:
        if condition.type == "Ready" and condition.status != "True":
            found.add(_closing(NOT_READY if condition.status == "False" else UNREACHABLE))
    return tuple(sorted(found, key=lambda taint: (taint.key, taint.value, taint.effect)))


def tolerated(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> bool:
    """Whether every taint is tolerated."""
    known = tuple(tolerations)
    return all(any(_tolerates(toleration, taint) for toleration in known) for taint in taints)


def _closing(key: str) -> Taint:
    return Taint(key=key, effect="NoSchedule")


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    """An empty key or effect matches any. An unknown operator tolerates nothing."""
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"
