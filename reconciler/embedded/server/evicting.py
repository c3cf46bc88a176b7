"""The Eviction API: a pod is deleted if the PodDisruptionBudgets that cover it allow that (policy/v1)."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from reconciler.api.objects.label_selector import LabelSelector
from reconciler.api.validation.fields import Field
from reconciler.api.validation.kinds import Object
from reconciler.api.validation.served_kinds import BUDGET
from reconciler.api.validation.status import Refusal, bad_request
from reconciler.api.validation.timestamps import timestamp
from reconciler.embedded.server.kind_store import Record
from reconciler.embedded.server.reading import get
from reconciler.embedded.server.routing import Target
from reconciler.embedded.server.store import Store
from reconciler.embedded.server.writing import Writer

_ENDED = ("Succeeded", "Failed", "Pending")
"""Phases in which a pod counts for no budget"""


def evict(store: Store, writer: Writer, target: Target, body: Any, *, dry_run: bool) -> None:
    """Delete a pod, and count it for its budget. Raises a 429 if its budget allows no disruption.

    A pod that several budgets cover cannot be evicted, as upstream.
    """
    eviction = Field(body)
    if eviction["metadata"]["name"].text() not in ("", target.name):
        raise bad_request("the name of the eviction does not match the name on the URL")
    pod = get(store, target).object
    options: Mapping[str, Any] = eviction["deleteOptions"].object()
    if pod.get("status", {}).get("phase", "Pending") not in _ENDED:
        covering = [one for one in store[BUDGET].scan(target.prefix) if _covers(one.object, pod)]
        if len(covering) > 1:
            raise Refusal(
                500,
                "InternalError",
                "This pod has more than one PodDisruptionBudget, which is not supported.",
            )
        for budget in covering:
            _count(writer, target, budget, dry_run=dry_run)
    writer.delete(target, options, dry_run=dry_run)


def _covers(budget: Object, pod: Object) -> bool:
    selector = budget.get("spec", {}).get("selector")
    if selector is None:
        return False
    return LabelSelector.model_validate(selector).parsed().matches(pod["metadata"].get("labels") or {})


def _count(writer: Writer, target: Target, budget: Record, *, dry_run: bool) -> None:
    name = budget.object["metadata"]["name"]
    status = budget.object.get("status", {})
    allowed = status.get("disruptionsAllowed", 0)
    if allowed < 1:
        why = f"The disruption budget {name} allows no disruption now"
        cause = {"reason": "DisruptionBudget", "message": why}
        raise Refusal(
            429,
            "TooManyRequests",
            "Cannot evict pod as it would violate the pod's disruption budget.",
            details={"causes": [cause]},
        )
    counted = Target(BUDGET, BUDGET.stored, target.namespace, name, "status")
    writer.update(counted, _with_one_less(target.name, writer.now), dry_run=dry_run)


def _with_one_less(pod: str, now: Callable[[], datetime]) -> Callable[[Object], Object]:
    def change(shown: Object) -> Object:
        status = shown.get("status", {})
        disrupted = {**status.get("disruptedPods", {}), pod: timestamp(now())}
        less = {"disruptionsAllowed": status.get("disruptionsAllowed", 0) - 1, "disruptedPods": disrupted}
        return {**shown, "status": {**status, **less}}

    return change
