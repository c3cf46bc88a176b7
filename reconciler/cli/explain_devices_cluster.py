"""The part of `explain` for pods that request Koordinator's devices on a cluster."""

from collections.abc import Iterable, Mapping
from random import random
from typing import Any

from reconciler.aio.queue import Queue
from reconciler.allocation.reasons.explanation import Explanation
from reconciler.api.objects.changes import Changed, Refused
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.plan import Reason
from reconciler.api.objects.semantics import Semantics
from reconciler.cli.cluster_intake import KINDS, listings
from reconciler.cli.explain_devices import anywhere, decide_and_explain, settled, with_refusal
from reconciler.cli.explanation import Situation
from reconciler.control.intake import Intake
from reconciler.control.units import Unit
from reconciler.errors import Malformed, Rejected
from reconciler.plugins.koordinator.demand import Demand, Failure, read_demand
from reconciler.plugins.koordinator.fleet import Fleet
from reconciler.plugins.koordinator.objects import is_device, read_device
from reconciler.plugins.koordinator.pods import KoordinatorState
from reconciler.plugins.koordinator.refusals import BOTH, BOTH_WHY, OFFERED, Refusal
from reconciler.plugins.koordinator.rules import Rules
from reconciler.state.store import Store

_UNGATED = (
    "dra-reconciler serves only pods with the scheduling gate dra-reconciler.io/allocation; this pod has none"
)


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
    found = settled(pod)
    if demand is None or found is not None:
        return found or Situation(message="the pod requests no devices", allocated=True)
    notes = [] if pod.gated else [_UNGATED]
    return Situation(explanations=[_answer(pod, demand, state.fleet, intake)], notes=notes)


def _answer(pod: Pod, demand: Demand | Failure, fleet: Fleet, intake: Intake) -> Explanation:
    if isinstance(demand, Demand) and pod.spec.resource_claims:
        return with_refusal(decide_and_explain(pod, demand, fleet, anywhere), Refusal(BOTH, BOTH_WHY))
    snapshot = intake.store.snapshot()
    try:
        choice = intake.placement.for_pod(pod, (), snapshot, offered=OFFERED)
    except Rejected as exc:
        return with_refusal(
            decide_and_explain(pod, demand, fleet, anywhere), Refusal(Reason.NODE_SELECTOR, str(exc))
        )
    names = snapshot.topology.nodes.keys() if choice.nodes is None else frozenset(choice.nodes)
    left_out = intake.placement.left_out(pod, (), snapshot, offered=OFFERED)
    return decide_and_explain(pod, demand, fleet, names.__contains__, left_out)
