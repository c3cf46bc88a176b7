"""Why a claim or pod of manifests is pending, as `allocate` meets it: what comes earlier has its devices."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from reconciler.allocation.explanation import Explanation
from reconciler.allocation.pod_devices import PodDevices, PodRefusal
from reconciler.allocation.policies.selection import Policies
from reconciler.allocation.reason_table import remedy
from reconciler.analysis.explain.explain import explain
from reconciler.api.manifests.bundle import Bundle
from reconciler.api.objects.claims import Allocation, ResourceClaim
from reconciler.api.objects.core import Pod, is_live
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.plan import Granted, Unsatisfied
from reconciler.api.objects.semantics import Semantics
from reconciler.api.objects.similar_names import similar_key
from reconciler.api.plugins import classes_first, holding, serving
from reconciler.control.handler import Blocked
from reconciler.control.offline import Question, decide, made_by_scheduler
from reconciler.state.devices.snapshot import Snapshot


class AllocationQuestion(NamedTuple):
    """The input of one allocation, and its result if it was decided."""

    claims: Sequence[ResourceClaim]
    snapshot: Snapshot
    nodes: Collection[str] | None
    answer: Granted | Unsatisfied | None = None

    def explained(self, steps: int) -> Explanation:
        """Why the claims can or cannot be allocated."""
        return explain(self.claims, self.snapshot, nodes=self.nodes, answer=self.answer, steps=steps)


class Situation(NamedTuple):
    """The questions about a claim or pod; if there are none, a message."""

    questions: Sequence[AllocationQuestion] = ()
    explanations: Sequence[Explanation] = ()
    """Instead of questions, for pods that request devices of a plugin"""
    message: str = ""
    """Begins with `reason`, if there is one"""
    reason: str = ""
    allocated: bool = False
    """Without questions: whether nothing is pending"""
    known: bool = True
    """Whether the claim or pod exists"""
    notes: Sequence[str] = ()


def without_questions(
    key: ObjectKey, claims: Mapping[ObjectKey, ResourceClaim], pods: Mapping[ObjectKey, Pod], *, of_pod: bool
) -> Situation:
    """Say why there is nothing to decide: it is allocated, its pods have finished, or it does not exist."""
    if of_pod and key in pods:
        return Situation(message=_of_pod(pods[key], claims), allocated=True)
    if of_pod or key not in claims:
        hint = "" if of_pod or key not in pods else "; there is a pod of that name; use --pod to explain it"
        hint = hint or similar_key(key, pods if of_pod else claims)
        return Situation(message=f"there is no {'pod' if of_pod else 'claim'} {key}{hint}", known=False)
    allocation = claims[key].allocation
    if allocation is not None:
        return Situation(message=f"allocated: {_devices(allocation)}", allocated=True)
    return Situation(message="not pending: the claim is being deleted, or its pods have finished")


def _of_pod(pod: Pod, claims: Mapping[ObjectKey, ResourceClaim]) -> str:
    """The devices of a pod without pending claims."""
    names = dict.fromkeys(pod.claim_names().values())
    named = (claims.get(ObjectKey(pod.key.namespace, name)) for name in names if name is not None)
    held = [
        f"{claim.key.name}: {_devices(claim.allocation)}"
        for claim in named
        if claim is not None and claim.allocation is not None
    ]
    return f"allocated: {'; '.join(held)}" if held else "the pod has no pending claims"


def _devices(allocation: Allocation) -> str:
    devices = (f"{device.id} for request {device.request}" for device in allocation.devices.results)
    return ", ".join(devices) or "no devices"


def in_manifests(
    bundle: Bundle,
    rules: Semantics,
    key: ObjectKey,
    *,
    of_pod: bool,
    steps: int,
    policies: Policies,
    options: Mapping[str, str],
    on_question: Callable[[Question], None] = lambda _: None,
) -> Situation:
    """The questions about a claim or pod; for devices of a plugin, which has `options`, the explanations.

    `on_question` is called with each question before it is decided.
    """
    if of_pod:
        pod = next((one for one in bundle.of(Pod) if one.key == key), None)
        if pod is not None and serving(pod, classes_first(bundle.objects())) is not None:
            return _of_plugin(pod, bundle, rules, steps, policies, options, on_question)
    matching: list[Question] = []
    notes: list[str] = []

    def note(question: Question) -> None:
        on_question(question)
        if question.pod == key if of_pod else any(claim.key == key for claim in question.claims):
            matching.append(question)
            notes.extend(filter(None, [question.left_out()]))
            for special in (one for one in question.claims if one.is_special):
                notes.extend(made_by_scheduler(special, question.snapshot))

    report = decide(bundle, rules, steps=steps, policies=policies, on_question=note)
    answers = {
        (answer.pod, answer.claims): answer.outcome
        for answer in report.answers
        if not isinstance(answer.outcome, Blocked)
    }
    if matching:
        questions = [
            AllocationQuestion(
                q.claims, q.snapshot, q.nodes, answers.get((q.pod, tuple(c.key for c in q.claims)))
            )
            for q in matching
        ]
        return Situation(questions, notes=notes)
    for answer in report.answers:
        named = answer.pod == key if of_pod else key in answer.claims
        if named and isinstance(answer.outcome, Blocked):
            return Situation(message=f"{answer.reason}: {answer.message}", reason=answer.reason)
    claims = {claim.key: claim for claim in bundle.of(ResourceClaim)}
    return without_questions(key, claims, {pod.key: pod for pod in bundle.of(Pod)}, of_pod=of_pod)


def _of_plugin(
    pod: Pod,
    bundle: Bundle,
    rules: Semantics,
    steps: int,
    policies: Policies,
    options: Mapping[str, str],
    on_question: Callable[[Question], None],
) -> Situation:
    key = pod.key
    explained: list[Explanation] = []

    def on_pod(asked: Pod, part: PodDevices, can_run: Callable[[str], bool]) -> None:
        if asked.key == key:
            explained.append(part.explain(asked, can_run, nothing))

    report = decide(
        bundle, rules, steps=steps, policies=policies, options=options, on_question=on_question, on_pod=on_pod
    )
    assert report.devices is not None  # this pod requests some
    if any(given.pod.key == key for given in report.devices.given):
        return Situation(explanations=explained)
    for refused, why in report.devices.refused:
        if refused == key:
            found = explained or [Explanation((), "", "", "", "", 0, pod=key)]
            return Situation(
                explanations=[with_refusal(one, why) for one in found], notes=report.devices.notes
            )
    return settled(pod) or Situation(message="the pod is not pending", allocated=True)


def nothing() -> str:
    """No node is excluded."""
    return ""


def with_refusal(explained: Explanation, why: PodRefusal) -> Explanation:
    """The explanation with another reason."""
    return replace(explained, node="", reason=str(why.reason), message=why.message, remedy=remedy(why.reason))


def settled(pod: Pod) -> Situation | None:
    """Why there is nothing to decide, or None."""
    if not is_live(pod):
        return Situation(message="not pending: the pod is being deleted, or has finished")
    if (plugin := holding(pod)) is not None:
        return Situation(message=f"allocated: {plugin.record(pod)}", allocated=True)
    return None
