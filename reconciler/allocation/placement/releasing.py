"""Whether kube-scheduler will find a node for a pod whose devices are allocated, once its gate is removed.

A decision counts every pod on its decided node. kube-scheduler counts bound pods and those that it has just
placed, in an order of its own. So what needs other pods to be there must hold with bound pods alone, and what
keeps a domain from filling up must hold however many of the ungated pods come first. Source: FIT-12.
"""

import dataclasses
from collections import deque
from enum import Enum, auto

from msgspec.structs import replace

from kernels.domains import Even, Near
from kernels.types import Mask
from reconciler.allocation.placement.filters import tests_of
from reconciler.allocation.placement.pod_tests import Counters, Question, passed


class Release(Enum):
    """What a pod with devices needs before its gate can be removed."""

    READY = auto()
    AWAITS_BINDING = auto()
    """Its node suits it once pods that have their nodes are bound to them"""
    UNSUITED = auto()
    """Its node does not suit it any more"""
    NOWHERE = auto()
    """No node would suit it, even without other pods and with other devices"""


def release_of(question: Question, kept: Mask | None, order: tuple[str, ...]) -> Release:
    """What a pod needs. `kept` (N,) are the nodes that nominated pods fill; `order` names all nodes."""
    nodes = question.nodes
    suits, found = nodes.every(), nodes.matching(question.held)
    question = replace(question, held=())
    ordered = False
    for test in tests_of(question):
        allowed = passed(test, question.counters)
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


def _whichever_comes_first(question: Question) -> Mask:
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
