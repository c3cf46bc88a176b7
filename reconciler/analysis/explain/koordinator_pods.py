"""Why a pod waits for Koordinator's devices: what each test leaves over of all that there are."""

from reconciler.allocation.koordinator.demand import Demand
from reconciler.allocation.koordinator.failure import Failure
from reconciler.allocation.koordinator.feasible import KindCount
from reconciler.allocation.koordinator.fleet import Fleet
from reconciler.allocation.reasons.explanation import Explanation, Request, Step
from reconciler.allocation.reasons.kinds import Kind
from reconciler.allocation.reasons.reasons import remedy
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey

KINDS = {
    "selector": Kind.SELECTOR,
    "health": Kind.TAINTS,
    "exclusiveness and virtual functions": Kind.HELD,
    "free amounts": Kind.CAPACITY,
}
"""Test -> what comes closest to it among the tests of claimed devices"""


def explain_pod(pod: Pod, demand: Demand | Failure, fleet: Fleet, reason: str) -> Explanation:
    """One request for each type of device. `reason` is the one that the pod was told."""
    if isinstance(demand, Failure):
        return Explanation((), "", reason, demand.message, remedy(reason), 0)
    requests = tuple(_request(pod.key, count) for count in fleet.counts(demand))
    return Explanation((), "", reason, "", remedy(reason), len(fleet.machines), requests)


def _request(pod: ObjectKey, count: KindCount) -> Request:
    (_, devices), *tests = count.gates
    funnel = tuple(Step(KINDS[name], name, left) for name, left in tests)
    enough = funnel[-1].left >= (count.wanted or 1)
    return Request(pod, count.kind, count.wanted, devices, funnel, (), (), (), possible=enough)
