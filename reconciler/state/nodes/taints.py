"""Taints of nodes, and which pods tolerate them. Source: core/v1, Taint and Toleration."""

import re
from collections.abc import Iterable

from reconciler.api.objects.core import Node, Taint, Toleration

UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"

CLOSING = frozenset({UNSCHEDULABLE, NOT_READY, UNREACHABLE})
"""Taints that keep out all new pods except those of DaemonSets."""

_DECIMAL = re.compile(r"0|-?[1-9][0-9]{0,18}", re.ASCII)
_KEEP_OUT = ("NoSchedule", "NoExecute")
_AVOID = "PreferNoSchedule"


def taints_of(node: Node) -> tuple[Taint, ...]:
    """The taints that keep pods out, sorted, with those that the control plane will add.

    The control plane taints a cordoned or unready node with a delay, and not in every cluster.
    """
    found = set(own_taints(node))
    if node.spec.unschedulable:
        found.add(_closing(UNSCHEDULABLE))
    for condition in node.status.conditions:
        if condition.type == "Ready" and condition.status != "True":
            found.add(_closing(NOT_READY if condition.status == "False" else UNREACHABLE))
    return tuple(sorted(found, key=lambda taint: (taint.key, taint.value, taint.effect)))


def own_taints(node: Node) -> tuple[Taint, ...]:
    """The taints of the Node object that keep pods out."""
    return tuple(taint for taint in node.spec.taints if taint.effect in _KEEP_OUT)


def soft_taints(node: Node) -> tuple[Taint, ...]:
    """The taints of the Node object that pods should avoid."""
    return tuple(taint for taint in node.spec.taints if taint.effect == _AVOID)


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
    if toleration.operator in ("Gt", "Lt"):
        return _compares(toleration, taint)
    return toleration.operator == "Exists"


def _compares(toleration: Toleration, taint: Taint) -> bool:
    """Whether the value of a taint is above (Gt) or below (Lt) that of the toleration (FIT-9)."""
    bound, value = _integer(toleration.value), _integer(taint.value)
    if bound is None or value is None:
        return False
    return value > bound if toleration.operator == "Gt" else value < bound


def _integer(text: str) -> int | None:
    """A 64-bit decimal integer without a plus sign or leading zeros; None for anything else."""
    number = int(text) if _DECIMAL.fullmatch(text) else None
    return number if number is not None and -(2**63) <= number < 2**63 else None
