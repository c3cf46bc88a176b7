"""Where pods are: on the node to which they are bound or to which their allocations pin them."""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from reconciler.api.objects.claims import Allocation
from reconciler.api.objects.core import Pod, claims_of, is_live
from reconciler.api.objects.gangs import GangRules, seated_on
from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.api.objects.pinning import pinned
from reconciler.api.objects.selectors import NodeSelector
from reconciler.state.store import Store


def node_of(pod: Pod, store: Store) -> str:
    """The node of a pod: bound, or pinned by claims or affinity. Empty if undecided or finished."""
    if pod.finished:
        return ""
    if pod.spec.node_name or not is_live(pod):
        return pod.spec.node_name  # a pod takes room until it is deleted
    for key in claims_of(pod):
        if node := _node_of_claim(key, store):
            return node
    # A pod with devices of a plugin, and some pods of gangs, are pinned by their affinity alone.
    return seated_on(pod) if pod.gated else pinned(pod)


def _node_of_claim(key: ObjectKey, store: Store) -> str:
    """The node that a claim pins its pods to; empty if it allows several, or is not decided."""
    claim = store.claims.get(key)
    if claim is None:
        return ""
    plan = store.assumed(claim.metadata.uid)
    if plan is not None and plan.plain:  # its allocation may not be made yet
        return plan.node
    allocation = claim.allocation if plan is None else plan.allocation
    return pinned_to(allocation.node_selector) if allocation is not None else ""


def allocation_of(store: Store, key: ObjectKey) -> Allocation | None:
    """The allocation of a claim, or the assumed one that is not written yet."""
    claim = store.claims.get(key)
    if claim is None:
        return None
    plan = store.assumed(claim.metadata.uid)
    return plan.allocation if plan is not None else claim.allocation


def pinned_to(selector: NodeSelector | None) -> str:
    """The only node that an allocation's selector allows; empty if it allows several (RES-12)."""
    if selector is None or len(selector.node_selector_terms) != 1:
        return ""
    for field in selector.node_selector_terms[0].match_fields:
        if field.key == "metadata.name" and field.operator == "In" and len(field.values) == 1:
            return field.values[0]
    return ""


class Placed(NamedTuple):
    """The places of several pods."""

    nodes: tuple[str, ...] = ()
    """Of pods that are bound or pinned; not of finished ones"""
    devices: tuple[DeviceID, ...] = ()
    """Allocated or assumed, without those for administrators; not of finished pods"""
    pods: int = 0
    """All of them"""


def placed(pods: Collection[Pod], store: Store) -> Placed:
    """The nodes and devices of pods, in their order."""
    present = [pod for pod in pods if not pod.finished]
    nodes = [node for pod in present if (node := node_of(pod, store))]
    keys = dict.fromkeys(key for pod in present for key in claims_of(pod))
    allocations = filter(None, (allocation_of(store, key) for key in keys))
    devices = [device for allocation in allocations for device in allocation.held]
    return Placed(tuple(nodes), tuple(devices), len(pods))


def placed_by_group(pods: Iterable[Pod], rules: GangRules, store: Store) -> dict[str, Placed]:
    """The same for each group of a tree that has such pods."""
    found: dict[str, list[Pod]] = {}
    for pod in pods:
        found.setdefault(rules.group_of(pod), []).append(pod)
    return {group: placed(here, store) for group, here in found.items()}
