"""The part of `explain` for pods that request devices of a plugin."""

from collections.abc import Iterable, Mapping
from typing import Any

from reconciler.allocation.placement.placing import refusal_reason
from reconciler.allocation.pod_devices import PodRefusal
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.semantics import Semantics
from reconciler.api.plugins import kinds_of_plugins, serving
from reconciler.cli.input import read_valid
from reconciler.cli.world import intake_of
from reconciler.errors import Rejected
from reconciler.library.explaining import Situation, nothing, settled, with_refusal

Options = Mapping[str, str]
_UNGATED = (
    "dra-reconciler serves only pods with the scheduling gate dra-reconciler.io/allocation; this pod has none"
)


def on_cluster(
    raws: Iterable[dict[str, Any]], rules: Semantics, key: ObjectKey, options: Options
) -> Situation:
    """Explain a pod as the reconciler meets it now: other pending pods do not come first."""
    raws = list(raws)
    others = kinds_of_plugins()
    intake = intake_of((one for one in raws if one["kind"] not in others), rules)
    pod = intake.store.pods[key]
    if (found := settled(pod)) is not None:
        return found
    objects = list(read_valid(one for one in raws if one["kind"] in {"Node", *others}))
    part = serving(pod).offline(objects, intake.store.pods.values(), options)
    notes = [] if pod.gated else [_UNGATED]
    if (why := part.refusal(pod)) is not None:
        explanation = part.explain(pod, _anywhere, nothing)
        return Situation(explanations=[with_refusal(explanation, why)], notes=notes)
    snapshot = intake.store.snapshot()
    try:
        choice = intake.placement.for_pod(pod, (), snapshot, offered=part.offered)
    except Rejected as exc:
        explanation = part.explain(pod, _anywhere, nothing)
        refusal = PodRefusal(refusal_reason(exc), str(exc))
        return Situation(explanations=[with_refusal(explanation, refusal)], notes=notes)
    names = snapshot.topology.nodes.keys() if choice.nodes is None else frozenset(choice.nodes)
    explanation = part.explain(
        pod,
        names.__contains__,
        lambda: intake.placement.left_out(pod, (), snapshot, offered=part.offered),
    )
    return Situation(explanations=[explanation], notes=notes)


def _anywhere(_: str) -> bool:
    return True
