"""The part of `explain` for pods that request devices of a plugin."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from reconciler.allocation.placement.placing import refusal_reason
from reconciler.allocation.pod_devices import PodDevices, PodRefusal
from reconciler.allocation.policies.selection import Policies
from reconciler.allocation.reasons.explanation import Explanation
from reconciler.allocation.reasons.reasons import remedy
from reconciler.api.manifests.bundle import Bundle
from reconciler.api.objects.core import Pod, is_live
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.semantics import Semantics
from reconciler.api.plugins import holding, kinds_of_plugins, serving
from reconciler.cli.explanation import Situation
from reconciler.cli.input import read_valid
from reconciler.cli.world import intake_of
from reconciler.control.offline import Question, decide
from reconciler.errors import Rejected

Options = Mapping[str, str]
_UNGATED = (
    "dra-reconciler serves only pods with the scheduling gate dra-reconciler.io/allocation; this pod has none"
)


def in_manifests(
    bundle: Bundle,
    rules: Semantics,
    key: ObjectKey,
    *,
    steps: int,
    policies: Policies,
    options: Options,
    on_question: Callable[[Question], None],
) -> Situation | None:
    """Explain a pod as `allocate` meets it: earlier claims and pods are allocated first.

    None if it requests no devices of a plugin.
    """
    pod = next((one for one in bundle.of(Pod) if one.key == key), None)
    plugin = serving(pod) if pod is not None else None
    if pod is None or plugin is None:
        return None
    explained: list[Explanation] = []

    def on_pod(asked: Pod, part: PodDevices, can_run: Callable[[str], bool]) -> None:
        if asked.key == key:
            explained.append(part.explain(asked, can_run, _nothing))

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
                explanations=[_with_refusal(one, why) for one in found], notes=report.devices.notes
            )
    return _settled(pod) or Situation(message="the pod is not pending", allocated=True)


def on_cluster(
    raws: Iterable[dict[str, Any]], rules: Semantics, key: ObjectKey, options: Options
) -> Situation:
    """Explain a pod as the reconciler meets it now: other pending pods do not come first."""
    raws = list(raws)
    others = kinds_of_plugins()
    intake = intake_of((one for one in raws if one["kind"] not in others), rules)
    pod = intake.store.pods[key]
    if (found := _settled(pod)) is not None:
        return found
    objects = list(read_valid(one for one in raws if one["kind"] in {"Node", *others}))
    part = serving(pod).offline(objects, intake.store.pods.values(), options)
    notes = [] if pod.gated else [_UNGATED]
    if (why := part.refusal(pod)) is not None:
        explanation = part.explain(pod, _anywhere, _nothing)
        return Situation(explanations=[_with_refusal(explanation, why)], notes=notes)
    snapshot = intake.store.snapshot()
    try:
        choice = intake.placement.for_pod(pod, (), snapshot, offered=part.offered)
    except Rejected as exc:
        explanation = part.explain(pod, _anywhere, _nothing)
        refusal = PodRefusal(refusal_reason(exc), str(exc))
        return Situation(explanations=[_with_refusal(explanation, refusal)], notes=notes)
    names = snapshot.topology.nodes.keys() if choice.nodes is None else frozenset(choice.nodes)
    explanation = part.explain(
        pod,
        names.__contains__,
        lambda: intake.placement.left_out(pod, (), snapshot, offered=part.offered),
    )
    return Situation(explanations=[explanation], notes=notes)


def _anywhere(_: str) -> bool:
    return True


def _nothing() -> str:
    return ""


def _with_refusal(explained: Explanation, why: PodRefusal) -> Explanation:
    """The explanation with another reason."""
    return replace(explained, node="", reason=str(why.reason), message=why.message, remedy=remedy(why.reason))


def _settled(pod: Pod) -> Situation | None:
    """Why there is nothing to decide, or None."""
    if not is_live(pod):
        return Situation(message="not pending: the pod is being deleted, or has finished")
    if (plugin := holding(pod)) is not None:
        return Situation(message=f"allocated: {plugin.record(pod)}", allocated=True)
    return None
