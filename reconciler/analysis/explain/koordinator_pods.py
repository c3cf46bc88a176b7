"""Explains why a pod that requests Koordinator devices is pending: how many devices each test leaves."""

from reconciler.allocation.koordinator.demand import Demand
from reconciler.allocation.koordinator.device_tests import KindCount
from reconciler.allocation.koordinator.failure import Failure
from reconciler.allocation.koordinator.fleet import Fleet
from reconciler.allocation.reasons.explanation import Explanation, Request, Step
from reconciler.allocation.reasons.kinds import Kind
from reconciler.allocation.reasons.reasons import remedy
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey

KINDS = {
    "selector": Kind.SELECTOR,
    "health": Kind.TAINTS,
    "matching virtual functions": Kind.SELECTOR,
    "size": Kind.CAPACITY,
    "exclusive use": Kind.GROUPS,
    "free virtual functions": Kind.HELD,
    "free amounts": Kind.HELD,
}
"""Test -> the most similar kind of gate"""


def explain_pod(pod: Pod, demand: Demand | Failure, fleet: Fleet, reason: str) -> Explanation:
    """One request for each device type. `reason` is the reason of the refusal."""
    if isinstance(demand, Failure):
        return Explanation((), "", reason, demand.message, remedy(reason), 0)
    requests = tuple(_request(pod.key, count) for count in fleet.counts(demand))
    return Explanation((), "", reason, "", remedy(reason), len(fleet.machines), requests)


def _request(pod: ObjectKey, count: KindCount) -> Request:
    (_, devices), *tests = count.gates
    funnel = tuple(Step(KINDS[name], name, left) for name, left in tests)
    enough = funnel[-1].left >= (count.wanted or 1)
    return Request(pod, count.kind, count.wanted, devices, funnel, (), (), (), possible=enough)
