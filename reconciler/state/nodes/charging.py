"""What one pod takes of a node: a pod that is bound, or one that its allocations tie to a node."""

from reconciler.api.objects.claims import Allocation
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.node_selector import NodeSelector
from reconciler.api.objects.pinning import pinned
from reconciler.api.objects.pods import claims_of, is_live
from reconciler.state.nodes.demand import demand
from reconciler.state.nodes.room import Charge
from reconciler.state.store import Store


def charge_of(pod: Pod, store: Store) -> Charge | None:
    """What a pod takes, and where; None if its node is open, or if it takes nothing any more."""
    node = node_of(pod, store)
    return Charge(node, demand(pod)) if node else None


def node_of(pod: Pod, store: Store) -> str:
    """The node that a pod is on, or will have to go to; empty if that is open, or it is done."""
    if pod.finished:
        return ""
    if pod.spec.node_name or not is_live(pod):
        return pod.spec.node_name  # one that is being deleted takes room until it is gone
    for key in claims_of(pod):
        allocation = allocation_of(store, key)
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
