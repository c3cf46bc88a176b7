"""Pods: validation at creation, and the few updates that are allowed."""

from collections.abc import Iterable
from datetime import datetime

from reconciler.api.validation.encoding import same
from reconciler.api.validation.fields import Cause, Field
from reconciler.api.validation.kinds import Object, Review
from reconciler.api.validation.names import dns_label, dns_subdomain, label_name
from reconciler.api.validation.pod_resources import check_resources

_IMAGES = ("containers", "initContainers", "ephemeralContainers")
_GATED_ONLY = "only `spec.schedulingGates`, tolerations and images of a pod may change"


def default_pod(obj: Object, _now: datetime) -> None:
    """Set the fields that every stored pod has."""
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        return
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("schedulerName", "default-scheduler")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    # kubectl debug of 1.36 crashes without it.
    spec.setdefault("securityContext", {})
    for container in spec["containers"] if isinstance(spec.get("containers"), list) else ():
        if isinstance(container, dict):
            container.setdefault("resources", {})
    if spec.get("schedulingGates") == []:
        del spec["schedulingGates"]
    status = obj.setdefault("status", {})
    if isinstance(status, dict):
        status.setdefault("phase", "Pending")


def check_pod(review: Review) -> list[Cause]:
    """Check a pod at creation or update."""
    root = Field(review.new)
    if review.subresource == "status":
        _check_status(root["status"])
    elif review.old is None:
        _check_spec(root["spec"])
    elif review.subresource != "binding":
        _check_update(root["spec"], review.old["spec"])
    return root.causes


def _check_spec(spec: Field) -> None:
    if not spec["containers"].items():
        spec["containers"].required()
    names: set[str] = set()
    for key in ("containers", "initContainers"):
        for container in spec[key].items():
            dns_label(container["name"])
            container["name"].unique(names)
            if not container["image"].text():
                container["image"].required()
            check_resources(container)
    claims: set[str] = set()
    for claim in spec["resourceClaims"].items():
        _check_claim(claim, claims)
    for container in spec["containers"].items():
        for use in container["resources"]["claims"].items():
            if use["name"].text() not in claims:
                use["name"].note("FieldValueNotFound", f"Not found: {use['name'].text()!r}")
    gates: set[str] = set()
    for gate in spec["schedulingGates"].items():
        label_name(gate["name"])
        gate["name"].unique(gates)
    if gates and spec["nodeName"].text():
        spec["nodeName"].forbidden("cannot be set until all schedulingGates have been cleared")


def _check_claim(claim: Field, names: set[str]) -> None:
    dns_label(claim["name"])
    claim["name"].unique(names)
    sources = [claim["resourceClaimName"], claim["resourceClaimTemplateName"]]
    given = [source for source in sources if source.present]
    if len(given) != 1:
        claim.invalid("must specify one of: `resourceClaimName`, `resourceClaimTemplateName`")
    for source in given:
        dns_subdomain(source)


def _check_status(status: Field) -> None:
    status["phase"].text()
    for condition in status["conditions"].items():
        condition["type"].text()
    names: set[str] = set()
    for entry in status["resourceClaimStatuses"].items():
        dns_label(entry["name"])
        entry["name"].unique(names)


def _check_update(spec: Field, old: Object) -> None:
    gates = [gate["name"].text() for gate in spec["schedulingGates"].items()]
    before = [gate["name"] for gate in old.get("schedulingGates", ())]
    if not set(gates) <= set(before):
        spec["schedulingGates"].forbidden("only deletion is allowed, but found new scheduling gates")
    _check_tolerations(spec["tolerations"], old.get("tolerations", []))
    if before:
        _check_tightened(spec, old)
    frozen = _without_changeables(spec.object(), gated=bool(before))
    if not same(frozen, _without_changeables(old, gated=bool(before))):
        spec.forbidden(f"pod updates may not change fields other than these: {_GATED_ONLY}")


def _check_tolerations(tolerations: Field, old: list[Object]) -> None:
    now = [item.object() for item in tolerations.items()]
    if any(item not in now for item in old):
        tolerations.forbidden("existing tolerations may not be changed, only added to")


def _check_tightened(spec: Field, old: Object) -> None:
    """Check that an update of a gated pod does not add nodes to its selection."""
    before, now = old.get("nodeSelector", {}), spec["nodeSelector"].object()
    if any(now.get(key) != value for key, value in before.items()):
        spec["nodeSelector"].forbidden("additions are allowed while gated, not other changes")
    if _terms(old.get("affinity")) is None:
        return
    terms = _terms(spec["affinity"].object())
    if terms is None or len(terms) != len(_terms(old["affinity"]) or ()):
        spec["affinity"].forbidden("no node selector term can be added or removed while gated")
        return
    for term, previous in zip(terms, _terms(old["affinity"]) or (), strict=True):
        if any(term.values()) and not any(previous.values()):
            spec["affinity"].forbidden("nothing may be added to a term that matches no node")
        for key in ("matchExpressions", "matchFields"):
            if any(item not in term.get(key, []) for item in previous.get(key, [])):
                spec["affinity"].forbidden("requirements may be added while gated, not removed")


def _terms(affinity: object) -> list[Object] | None:
    value = affinity
    for key in ("nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"):
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, list) else None


def _without_changeables(spec: Object, *, gated: bool) -> Object:
    dropped: Iterable[str] = ("schedulingGates", "tolerations", "activeDeadlineSeconds")
    kept = {key: value for key, value in spec.items() if key not in dropped}
    if gated:
        kept.pop("nodeSelector", None)
        kept.pop("affinity", None)
    for key in _IMAGES:
        if isinstance(kept.get(key), list):
            kept[key] = [{**item, "image": ""} if isinstance(item, dict) else item for item in kept[key]]
    return kept
