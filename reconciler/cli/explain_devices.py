"""The part of `explain` for pods that request Koordinator's devices."""

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from reconciler.allocation.policies.selection import Policies
from reconciler.allocation.reasons.explanation import Explanation
from reconciler.allocation.reasons.reasons import remedy
from reconciler.api.manifests.bundle import Bundle
from reconciler.api.objects.core import Pod, is_live
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.semantics import Semantics
from reconciler.cli.explanation import Situation
from reconciler.control.offline import Question, decide
from reconciler.plugins.koordinator.demand import Demand, Failure, read_demand
from reconciler.plugins.koordinator.explain import explain_pod
from reconciler.plugins.koordinator.fleet import Fleet, Placed
from reconciler.plugins.koordinator.names import ALLOCATED
from reconciler.plugins.koordinator.offline import PodQuestion
from reconciler.plugins.koordinator.refusals import Refusal, Unserved, reason_of, refusal
from reconciler.plugins.koordinator.rules import Rules


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
            explained.append(
                decide_and_explain(question.pod, question.demand, question.fleet, question.can_run)
            )

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
        return settled(pod) or Situation(
            explanations=[decide_and_explain(pod, demand, Fleet(machines), anywhere)]
        )
    for given in report.devices.given:
        if given.pod.key == key:
            return Situation(explanations=explained)
    for refused, why in report.devices.refused:
        if refused == key:
            found = explained or [Explanation((), "", "", "", "", 0, pod=key)]
            return Situation(
                explanations=[with_refusal(one, why) for one in found], notes=report.devices.notes
            )
    return settled(pod) or Situation(message="the pod is not pending", allocated=True)


def decide_and_explain(
    pod: Pod, demand: Demand | Failure, fleet: Fleet, can_run: Callable[[str], bool], left_out: str = ""
) -> Explanation:
    """Decide a pod on the nodes where it can run, and explain the answer."""
    if isinstance(demand, Failure):
        return explain_pod(pod, demand, fleet, reason_of(demand))
    found = fleet.first(demand, can_run)
    if isinstance(found, Placed):
        explained = explain_pod(pod, demand, fleet, "", can_run=can_run)
        return replace(explained, node=found.node, nearest=())
    assert isinstance(found, Unserved)  # nothing limits the tries
    why = refusal(found, left_out if found.unsuited else "", crowded=False)
    return explain_pod(pod, demand, fleet, why.reason, message=why.message, can_run=can_run)


def anywhere(_: str) -> bool:
    """Every node will do."""
    return True


def with_refusal(explained: Explanation, why: Refusal) -> Explanation:
    """The explanation with another reason."""
    return replace(explained, node="", reason=str(why.reason), message=why.message, remedy=remedy(why.reason))


def settled(pod: Pod) -> Situation | None:
    """Why there is nothing to decide, or None."""
    if not is_live(pod):
        return Situation(message="not pending: the pod is being deleted, or has finished")
    if ALLOCATED in pod.metadata.annotations:
        return Situation(message=f"allocated: {pod.metadata.annotations[ALLOCATED]}", allocated=True)
    return None
