"""How a pod meets other pods on nodes: nominated ones, gated ones that are released with it, and its copies.

Source: FIT-10, FIT-12.
"""

import dataclasses
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum, auto
from operator import itemgetter

import numpy as np
from msgspec.structs import replace

from kernels.domains import Even, Near
from kernels.fit import copies
from kernels.types import Amounts, Mask
from reconciler.allocation.placement.filters import ROOM, tests_of
from reconciler.allocation.placement.pod_tests import Counters, PodQuestion, Test, nodes_passing
from reconciler.api.objects.core import Pod
from reconciler.state.nodes.room import demand
from reconciler.state.pods.residents import Residents

RESERVED = Test(
    "NominatedPods",
    "kept for nominated pods",
    np.ones(0, dtype=np.bool_),
    "wait until the nominated pods run, or raise the priority of the pod",
    by_pods=True,
)
"""The test for which `beside_nominated` finds the nodes that fail"""


def beside_nominated(question: PodQuestion, nominated: Mapping[str, Sequence[Pod]]) -> Mask:
    """(N,) nodes that the pod cannot use together with the pods nominated to them."""
    found = ~question.nodes.every()
    for node, pods in nominated.items():
        row = question.nodes.row_of(node)
        if row is not None:
            found[row] = not _fits(question, row, pods)
    return found


def _fits(question: PodQuestion, row: int, pods: Sequence[Pod]) -> bool:
    with_them = replace(
        question, counters=Counters(question.nodes, question.counters.but), fellows=tuple(pods)
    )
    rules = [test.passed for test in tests_of(with_them) if not isinstance(test.passed, np.ndarray)]
    counters = with_them.counters
    counts = counters.with_pods(pods, row)
    return _has_room(question, row, pods) and all(rule.allows(counters.codes, counts)[row] for rule in rules)


def _has_room(question: PodQuestion, row: int, pods: Iterable[Pod]) -> bool:
    room = question.nodes.room
    left = room.free(question.waived, but=question.counters.but)[:, row].copy()
    for pod in pods:
        left -= room.vector(demand(pod))
    wanted = room.vector(question.wanted)
    return bool((left[wanted > 0] >= wanted[wanted > 0]).all())


class Release(Enum):
    """What a pod with devices needs before its gate can be removed."""

    READY = auto()
    AWAITS_BINDING = auto()
    """Its node suits it once pods that have their nodes are bound to them"""
    UNSUITED = auto()
    """Its node does not suit it any more"""
    NOWHERE = auto()
    """No node would suit it, even without other pods and with other devices"""


def release_of(question: PodQuestion, kept: Mask | None, order: tuple[str, ...]) -> Release:
    """What a pod needs. `kept` (N,) are the nodes that nominated pods fill; `order` names all nodes."""
    nodes = question.nodes
    suits, found = nodes.every(), nodes.matching(question.held)
    question = replace(question, held=())
    ordered = False
    for test in tests_of(question):
        allowed = nodes_passing(test, question.counters)
        found = found & allowed
        suits = suits if test.by_pods else suits & allowed
        ordered = ordered or isinstance(test.passed, Near | Even)
    if not nodes.in_order(suits, order).any():
        return Release.NOWHERE
    if kept is not None:
        found = found & ~kept
    if not nodes.in_order(found, order).any():
        return Release.UNSUITED
    if ordered and not nodes.in_order(found & _whichever_comes_first(question), order).any():
        return Release.AWAITS_BINDING
    return Release.READY


def _whichever_comes_first(question: PodQuestion) -> Mask:
    """(N,) nodes that affinity and spread allow, in whichever order ungated pods are bound."""
    residents, own = question.nodes.residents, question.counters.but
    found = question.nodes.every()
    unbound = [key for key in residents.unbound(gated=False) if key not in own]
    if not unbound:
        return found
    bound = Counters(question.nodes, {*own, *unbound})
    ungated = Counters(question.nodes, {*own, *residents.unbound(gated=True)})
    deque(tests_of(replace(question, counters=ungated)), maxlen=0)  # its counters, as those of `bound`
    for test in tests_of(replace(question, counters=bound)):
        match test.passed:
            case Near(counters=of, first=first) as near:
                # kube-scheduler may put the first one anywhere for a moment, while it misses its allocation.
                alone = first and not any(ungated.counts[at].any() for at in of)
                found = found & dataclasses.replace(near, first=alone).allows(bound.codes, bound.counts)
            case Even() as even:
                found = found & even.allows_between(bound.codes, ungated.counts, bound.counts)
    return found


# What decides on which nodes a pod may run, but its labels and its claims. Read from the fields, which takes
# half the time of asking the models for each.
_OF_SPEC = itemgetter(
    "node_name",
    "node_selector",
    "affinity",
    "tolerations",
    "priority",
    "preemption_policy",
    "containers",
    "init_containers",
    "overhead",
    "resources",
    "topology_spread_constraints",
    "host_network",
    "host_users",
    "volumes",
)
_OF_STATUS = itemgetter(
    *("nominated_node_name", "container_statuses", "init_container_statuses"),
    *("resources", "allocated_resources"),
)


class Likeness:
    """What other pods must have in common with one, so that they may run on the same nodes. None of them has
    an allocated claim.
    """

    def __init__(self, of: Pod, residents: Residents) -> None:
        self._of = of
        self._status = _OF_STATUS(of.status.__dict__)
        self._labels = of.metadata.labels
        self._residents = residents

    def is_copy(self, pod: Pod) -> bool:
        """Whether a pod has it.

        Labels may differ, as those with the number of a pod do, where no other pod looks at them.
        """
        of = self._of
        if pod.spec is not of.spec and (
            pod.gated != of.gated or _OF_SPEC(pod.spec.__dict__) != _OF_SPEC(of.spec.__dict__)
        ):
            return False
        if pod.key.namespace != of.key.namespace or _OF_STATUS(pod.status.__dict__) != self._status:
            return False
        if pod.metadata.labels == self._labels:
            return True
        return not (self._residents.against(pod) or self._residents.asks_for_namespaces(pod, ()))


def room_for_copies(question: PodQuestion) -> Amounts | None:
    """(N,) by row: how many copies of a pod each node takes beside the pods that are there, itself included.

    None if that is not a matter of the resources of each node alone: copies with ports, affinity, spread or
    volumes change where the next one may run.
    """
    pod, nodes = question.pod, question.nodes
    if pod.spec.node_name or pod.spec.volumes or question.waived or question.held:
        return None
    if any(test.by_pods and test.plugin != ROOM for test in tests_of(question)):
        return None
    free = nodes.room.free(question.waived, but=())  # the pod itself is one of those that are there
    return copies(free, nodes.room.vector(demand(pod)))
