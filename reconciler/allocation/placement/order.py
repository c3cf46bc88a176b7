"""The order in which pods and claims are allocated, and the order of nodes that a pod prefers. Source:
PREF-1 to PREF-6.
"""

from contextlib import suppress

import numpy as np

from kernels.domains import Crowd, per_domain
from kernels.types import Amounts, Mask
from reconciler.allocation.policies.policy import PodPreferences
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod
from reconciler.api.objects.selectors import NodeSelector
from reconciler.errors import Rejected, Unlisted
from reconciler.state.nodes.table import Nodes
from reconciler.state.pods.terms import NAMESPACE, SOFT, PodSet, Scope, preferred_of, spread_of

QueueKey = tuple[int, str, str, str, str]
"""Sort key of pods and claims; the smallest is first."""

_YOUNGEST = "~"
"""Sorts after every timestamp, since it sorts after every digit."""


def queue_key(thing: Pod | ResourceClaim) -> QueueKey:
    """The place of a pod, or of a claim without a pod, among all pending ones.

    A claim without a pod has priority 0, like a pod without a priority. An object without a creation
    timestamp is the youngest. Timestamps are whole seconds, so the namespace and then the name break ties.
    If a pod and a claim are equal in all of these, the pod is first.
    """
    urgency = -(thing.spec.priority or 0) if isinstance(thing, Pod) else 0
    created = thing.metadata.creation_timestamp or _YOUNGEST
    return urgency, created, thing.key.namespace, thing.key.name, thing.kind


HOSTNAME = "kubernetes.io/hostname"


def pod_preferences(pod: Pod, nodes: Nodes, order: tuple[str, ...]) -> PodPreferences | None:
    """What a pod prefers among the nodes in this order; None if all are the same to it.

    A part that cannot be read counts for nothing: preferences never refuse a pod. Asks for the labels of
    namespaces that preferred terms select by, and does not wait for them.
    """
    untolerated, matching = nodes.untolerated(pod), _matching(pod, nodes)
    near = _near(pod, nodes)
    crowds, spreadable = _crowds(pod, nodes, order)
    if untolerated is None and matching is None and near is None and spreadable is None:
        return None
    return PodPreferences(
        untolerated=None if untolerated is None else nodes.in_order(untolerated, order),
        matching=None if matching is None else nodes.in_order(matching, order),
        near=None if near is None else nodes.in_order(near, order),
        crowds=crowds,
        spreadable=spreadable,
    )


def _matching(pod: Pod, nodes: Nodes) -> Amounts | None:
    """(N,) by row: the weights of the preferred terms of node affinity that match; None if none does."""
    affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
    found: Amounts = np.zeros(len(nodes.every()), dtype=np.int64)
    for one in affinity.preferred_during_scheduling_ignored_during_execution if affinity else ():
        with suppress(Rejected):
            found += one.weight * nodes.matching([NodeSelector(node_selector_terms=(one.preference,))])
    return found if found.any() else None


def _near(pod: Pod, nodes: Nodes) -> Amounts | None:
    """(N,) by row: the weights of affinity between pods, both ways; None if there are none."""
    residents, but = nodes.residents, (pod.key,)
    found: Amounts = np.zeros(len(nodes.every()), dtype=np.int64)

    def add(each: Amounts, weight: int, key: str) -> None:
        if each.any():
            codes, size = nodes.labels.codes(key)
            found[:] += weight * per_domain(each, codes, None, size).take(codes)

    with suppress(Rejected):
        terms = tuple(preferred_of(pod))
        if any(term.scope.asks for term, _ in terms):
            with suppress(Unlisted):
                nodes.on_demand.require(NAMESPACE, "the namespaceSelector of a preferred pod affinity term")
        for term, weight in terms:
            pods = PodSet(((term.scope, term.selector),), terminating=True)
            add(residents.belonging(pods, but=but), weight, term.topology_key)
    for wish, having in residents.wishes(pod, but=but).items():
        add(having, wish.weight, wish.term.topology_key)
    return found if found.any() else None


def _crowds(pod: Pod, nodes: Nodes, order: tuple[str, ...]) -> tuple[tuple[Crowd, ...], Mask | None]:
    """For each constraint, the pods in the domain of each node in order; and the nodes with all labels."""
    try:
        constraints = spread_of(pod, SOFT) if pod.spec.topology_spread_constraints else ()
    except Rejected:
        constraints = ()
    if not constraints:
        return (), None
    complete = nodes.every()
    for one in constraints:
        complete &= nodes.labels.codes(one.topology_key)[0] > 0
    found = []
    for one in constraints:
        pods = PodSet(((Scope(frozenset([pod.key.namespace])), one.selector),), terminating=False)
        each = nodes.residents.belonging(pods, but=(pod.key,))
        if one.selector.selects_all:  # kube-scheduler counts no pod for an empty selector
            each = np.zeros_like(each)
        if one.topology_key == HOSTNAME:  # every node is a domain, whatever its label says
            codes = np.arange(len(order), dtype=np.int32)
            found.append(Crowd(nodes.in_order(each, order), codes, one.skew - 1))
            continue
        codes, size = nodes.labels.codes(one.topology_key)
        counted = complete
        if one.by_affinity:
            with suppress(Rejected):
                counted = counted & nodes.labelled(pod)
        if one.by_taints:
            counted = counted & nodes.tolerated_own(pod)
        counts = per_domain(each, codes, counted, size).take(codes)
        found.append(Crowd(nodes.in_order(counts, order), nodes.in_order(codes, order), one.skew - 1))
    return tuple(found), nodes.in_order(complete, order)
