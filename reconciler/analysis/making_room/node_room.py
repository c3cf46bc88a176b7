"""Who has to leave a node because it has too little CPU, memory or room for pods. Source: MAKE-6."""

from collections.abc import Sequence

from reconciler.analysis.making_room.units import Pods
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.state.nodes.demand import PODS, demand
from reconciler.state.nodes.table import Nodes

JUDGED = ("cpu", "memory", "ephemeral-storage", PODS)
"""Resources that every node reports, whatever devices stand for others"""


class NodeRoom:
    """The room that a pod wants on nodes."""

    def __init__(self, pod: Pod, nodes: Nodes) -> None:
        self._nodes = nodes
        self._wanted = {name: amount for name, amount in demand(pod).items() if name in JUDGED}
        self._short = nodes.room.short_of(
            self._wanted, frozenset(), but=(pod.key, *nodes.nominated.charges_of_pod(pod))
        )
        self._own = nodes.room.charged(pod.key)

    def needed(self, node: str, leaving: Sequence[ObjectKey]) -> tuple[Pods, list[Pods]] | None:
        """Pods that have to leave a node, and sets of each of which one has to leave, among those that can.

        None if the pod does not fit without all of them.
        """
        row = self._nodes.row_of(node)
        always: set[ObjectKey] = set()
        some: list[Pods] = []
        for name, short in self._short.items():
            if row is None or not short[row]:
                continue
            taken = {key: self._taken(key, name) for key in leaving}
            own = self._own.amounts.get(name, 0) if self._own is not None and self._own.node == node else 0
            spare = self._nodes.room.left(node, name) + own + sum(taken.values()) - self._wanted[name]
            if spare < 0:
                return None
            always |= {key for key, amount in taken.items() if amount > spare}
            some.append(frozenset(key for key, amount in taken.items() if amount))
        return frozenset(always), some

    def _taken(self, key: ObjectKey, name: str) -> int:
        charge = self._nodes.room.charged(key)
        return 0 if charge is None else charge.amounts.get(name, 0)


def with_room(needed: Sequence[Pods], always: Pods, some: Sequence[Pods]) -> list[Pods]:
    """Sets of which one leaves, extended by pods that leave in any case, and by one of each of some sets."""
    found = [one | always for one in needed]
    for among in some:
        found = [
            more
            for one in found
            for more in ([one] if one & among else [one | {key} for key in sorted(among)])
        ]
    return found
