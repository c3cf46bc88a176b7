"""What pods take of their nodes: those that are bound, and those that their allocations tie to a node."""

from collections.abc import Iterable

from reconciler.inventory.store import Store
from reconciler.nodes.demand import demand
from reconciler.nodes.room import Charge, Room
from reconciler.objects.claims import Allocation
from reconciler.objects.core import Pod
from reconciler.objects.meta import ObjectKey
from reconciler.objects.nodeselector import NodeSelector
from reconciler.objects.pinning import pinned
from reconciler.reconcile.units import Roster, claims_of, is_live


class Charges:
    """Keeps the room on nodes up to date, pod by pod and claim by claim."""

    def __init__(self, store: Store, roster: Roster, room: Room) -> None:
        self._store = store
        self._roster = roster
        self._room = room
        self._counted: dict[ObjectKey, Pod] = {}
        """The pods as they were charged"""

    def pod(self, key: ObjectKey) -> bool:
        """Follow a pod that changed or went. Whether a node has more room now."""
        pod = self._store.pods.get(key)
        node = self._node(pod) if pod is not None else ""
        if pod is None or not node:
            self._counted.pop(key, None)
            return self._room.charge(key, None)
        before = self._room.charged(key)
        if before is not None and before.node == node and self._counted.get(key) is pod:
            return False  # most news of a claim is an echo
        self._counted[key] = pod
        return self._room.charge(key, Charge(node, demand(pod)))

    def claims(self, keys: Iterable[ObjectKey]) -> bool:
        """Follow claims that were allocated, or let go: their pods go where they are."""
        pods = {pod for key in keys for pod in self._roster.users(key)}
        roomier = [self.pod(pod) for pod in sorted(pods)]
        return any(roomier)

    def _node(self, pod: Pod) -> str:
        """The node that a pod is on, or will have to go to; empty if that is open, or it is done."""
        if pod.finished:
            return ""
        if pod.spec.node_name or not is_live(pod):
            return pod.spec.node_name  # one that is being deleted takes room until it is gone
        for key in claims_of(pod):
            allocation = allocation_of(self._store, key)
            if allocation is not None and (node := pinned_to(allocation.node_selector)):
                return node
        # Nothing but its affinity ties a pod that was given Koordinator's devices.
        return "" if pod.gated else pinned(pod)


def allocation_of(store: Store, key: ObjectKey) -> Allocation | None:
    """What a claim holds, or will hold once its write is through."""
    claim = store.claims.get(key)
    if claim is None:
        return None
    plan = store.assumed(claim.metadata.uid)
    return plan.allocation if plan is not None else claim.allocation


def pinned_to(selector: NodeSelector | None) -> str:
    """The one node that an allocation's selector names; empty if it leaves a choice (RES-12)."""
    if selector is None or len(selector.node_selector_terms) != 1:
        return ""
    for field in selector.node_selector_terms[0].match_fields:
        if field.key == "metadata.name" and field.operator == "In" and len(field.values) == 1:
            return field.values[0]
    return ""
