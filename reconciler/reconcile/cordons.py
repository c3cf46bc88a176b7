"""Nodes that take no new pods. Devices there are of no use to a claim whose pod has yet to come."""

from reconciler.nodes.table import Nodes


class Cordons:
    """Which nodes are cordoned or away."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes

    def __contains__(self, node: str) -> bool:
        return self._nodes.closed(node)
