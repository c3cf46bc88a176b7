"""Decides what kube-scheduler decides for extended resources, for the embedded server."""

from collections.abc import Iterable
from datetime import UTC, datetime

from reconciler.api.manifests.bundle import bundle
from reconciler.api.manifests.documents import Document, Origin
from reconciler.api.migrate.special_claims import is_special
from reconciler.api.objects.core import GATE
from reconciler.api.objects.semantics import Semantics
from reconciler.api.validation.kinds import Object
from reconciler.control.offline import decide


def schedule(others: Iterable[Object], pod: Object) -> tuple[str, Object] | None:
    """The node of a pod, and its special claim with an allocation there; None if it fits nowhere.

    `others` are what it meets: devices, nodes, allocated claims and bound pods.
    """
    gated = {**pod, "spec": {**pod["spec"], "schedulingGates": [{"name": GATE}]}}
    raws = (*others, gated)
    report = decide(bundle(Document(Origin("server", at), raw) for at, raw in enumerate(raws)), Semantics())
    nodes = {plan.claim.name: plan.node for granted in report.granted for plan in granted.plans}
    made = (claim for claim in report.allocated(datetime.now(UTC)) if is_special(claim))
    return next(((nodes[claim["metadata"]["name"]], claim) for claim in made), None)
