"""Nodes that take no new pods. Devices there are of no use to a claim whose pod has yet to come."""

from reconciler.inventory.snapshot import Topology
from reconciler.objects.changes import Change, Changed, Refused, Removed, Replaced
from reconciler.objects.core import Node


class Cordons:
    """Which nodes are cordoned. Their taints are not looked at: claims do not say what pods tolerate."""

    def __init__(self) -> None:
        self._closed: frozenset[str] = frozenset()
        self._open: tuple[Topology | None, tuple[str, ...] | None] = (None, None)

    def __contains__(self, node: str) -> bool:
        return node in self._closed

    def note(self, change: Change) -> bool:
        """Take in news of nodes. Whether another node is cordoned now, or one no longer."""
        before = self._closed
        match change:
            case Changed(object=Node() as node):
                self._closed = self._closed - {node.key.name} | _closed(node)
            case Removed(kind="Node", key=key) | Refused(kind="Node", key=key):
                self._closed -= {key.name}
            case Replaced(kind="Node", objects=objects):
                self._closed = frozenset().union(*(_closed(n) for n in objects if isinstance(n, Node)))
        if self._closed == before:
            return False
        self._open = (None, None)
        return True

    def open(self, world: Topology) -> tuple[str, ...] | None:
        """The nodes that take pods; None if all do. Kept for as long as nothing changes."""
        if not self._closed:
            return None
        if self._open[0] is not world:
            self._open = (world, tuple(name for name in sorted(world.nodes) if name not in self._closed))
        return self._open[1]


def _closed(node: Node) -> frozenset[str]:
    return frozenset({node.key.name}) if node.spec.unschedulable else frozenset()
