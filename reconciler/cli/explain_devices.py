"""The part of `explain` for pods that request Koordinator's devices, in manifests or on a cluster."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from random import random
from typing import Any

from reconciler.aio.queue import Queue
from reconciler.allocation.koordinator.demand import Demand, read_demand
from reconciler.allocation.koordinator.failure import Failure
from reconciler.allocation.koordinator.fleet import Fleet, Placed
from reconciler.allocation.koordinator.refusing import BOTH, BOTH_WHY, OFFERED, Refusal, reason_of, refusal
from reconciler.allocation.koordinator.unserved import Unserved
from reconciler.allocation.policies.selection import Policies
from reconciler.allocation.reasons.explanation import Explanation
from reconciler.allocation.reasons.reasons import remedy
from reconciler.analysis.explain.koordinator_pods import explain_pod
from reconciler.api.koordinator.names import ALLOCATED
from reconciler.api.koordinator.reading import is_device, read_device
from reconciler.api.manifests.bundle import Bundle
from reconciler.api.objects.changes import Changed, Refused
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.plan import Reason
from reconciler.api.objects.pods import is_live
from reconciler.api.objects.semantics import Semantics
from reconciler.cli.explain_question import KINDS, Situation, listings
from reconciler.control.intake import Intake
from reconciler.control.koordinator.offline import PodQuestion
from reconciler.control.koordinator.state import KoordinatorState
from reconciler.control.offline import Question, decide
from reconciler.control.queueing.units import Unit
from reconciler.errors import Malformed, Rejected
from reconciler.state.koordinator.rules import Rules
from reconciler.state.store import Store

_UNGATED = (
    "dra-reconciler serves only pods with the scheduling gate dra-reconciler.io/allocation; this pod has none"
)


def requests_devices(pods: Iterable[Pod], key: ObjectKey, machines: Rules) -> bool:
    """Whether the pod of that name exists and requests Koordinator's devices, validly or not."""
    return any(pod.key == key and read_demand(pod, machines) is not None for pod in pods)


def in_manifests(
    bundle: Bundle,
    rules: Semantics,
    machines: Rules,
    key: ObjectKey,
    *,
    steps: int,
    policies: Policies,
    on_question: Callable[[Question], None],
) -> Situation:
    """Explain a pod as `allocate` meets it: earlier claims and pods are allocated first."""
    explained: list[Explanation] = []

    def on_pod(question: PodQuestion) -> None:
        if question.pod.key == key:
            explained.append(_decided(question.pod, question.demand, question.fleet, question.can_run))

    report = decide(
        bundle,
        rules,
        steps=steps,
        machines=machines,
        policies=policies,
        on_question=on_question,
        on_pod=on_pod,
    )
    pod = next(pod for pod in bundle.of(Pod) if pod.key == key)
    if report.devices is None:
        demand = read_demand(pod, machines)
        assert demand is not None
        return _settled(pod) or Situation(explanations=[_decided(pod, demand, Fleet(machines), _anywhere)])
    for given in report.devices.given:
        if given.pod.key == key:
            return Situation(explanations=explained)
    for refused, why in report.devices.refused:
        if refused == key:
            found = explained or [Explanation((), "", "", "", "", 0, pod=key)]
            return Situation(explanations=[_refused(one, why) for one in found], notes=report.devices.notes)
    return _settled(pod) or Situation(message="the pod is not pending", allocated=True)


def on_cluster(
    raws: Iterable[Mapping[str, Any]], rules: Semantics, machines: Rules, key: ObjectKey
) -> Situation:
    """Explain a pod as the reconciler meets it now: other pending pods do not come first."""
    raws = list(raws)
    state = KoordinatorState(Fleet(machines), lambda _: None)
    intake = Intake(Store(rules), Queue[Unit](base=1.0, cap=1.0, random=random), KINDS, lambda _: None)
    for listing in listings(raw for raw in raws if not is_device(raw)):
        state.apply(listing)
        intake.take(listing)
    for raw in filter(is_device, raws):
        try:
            state.apply(Changed("Device", read_device(raw)))
        except Malformed as exc:
            state.apply(Refused("Device", ObjectKey("", raw["metadata"]["name"]), str(exc)))
    pod = intake.store.pods[key]
    demand = read_demand(pod, machines)
    settled = _settled(pod)
    if demand is None or settled is not None:
        return settled or Situation(message="the pod requests no devices", allocated=True)
    notes = [] if pod.gated else [_UNGATED]
    return Situation(explanations=[_answer(pod, demand, state.fleet, intake)], notes=notes)


def _answer(pod: Pod, demand: Demand | Failure, fleet: Fleet, intake: Intake) -> Explanation:
    """Decide a pod on the nodes where it can run, and explain the answer."""
    if isinstance(demand, Demand) and pod.spec.resource_claims:
        return _refused(_decided(pod, demand, fleet, _anywhere), Refusal(BOTH, BOTH_WHY))
    snapshot = intake.store.snapshot()
    try:
        choice = intake.placement.for_pod(pod, (), snapshot, offered=OFFERED)
    except Rejected as exc:
        return _refused(_decided(pod, demand, fleet, _anywhere), Refusal(Reason.NODE_SELECTOR, str(exc)))
    names = snapshot.topology.nodes.keys() if choice.nodes is None else frozenset(choice.nodes)
    left_out = intake.placement.left_out(pod, (), snapshot, offered=OFFERED)
    return _decided(pod, demand, fleet, names.__contains__, left_out)


def _decided(
    pod: Pod, demand: Demand | Failure, fleet: Fleet, can_run: Callable[[str], bool], left_out: str = ""
) -> Explanation:
    if isinstance(demand, Failure):
        return explain_pod(pod, demand, fleet, reason_of(demand))
    found = fleet.first(demand, can_run)
    if isinstance(found, Placed):
        explained = explain_pod(pod, demand, fleet, "", can_run=can_run)
        return replace(explained, node=found.node, nearest=())
    assert isinstance(found, Unserved)  # nothing limits the tries
    why = refusal(found, left_out if found.unsuited else "", crowded=False)
    return explain_pod(pod, demand, fleet, why.reason, message=why.message, can_run=can_run)


def _anywhere(_: str) -> bool:
    return True


def _refused(explained: Explanation, why: Refusal) -> Explanation:
    return replace(explained, node="", reason=str(why.reason), message=why.message, remedy=remedy(why.reason))


def _settled(pod: Pod) -> Situation | None:
    """Why there is nothing to decide, or None."""
    if not is_live(pod):
        return Situation(message="not pending: the pod is being deleted, or has finished")
    if ALLOCATED in pod.metadata.annotations:
        return Situation(message=f"allocated: {pod.metadata.annotations[ALLOCATED]}", allocated=True)
    return None
