"""Pods: validation at creation and of the few updates that are allowed."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from copy import deepcopy
from datetime import datetime
from typing import Any

from reconciler.api.objects.quantity import NANO
from reconciler.api.validation.bodies import same
from reconciler.api.validation.fields import Field, dns_label, dns_subdomain, label_name, named, quantity
from reconciler.api.validation.kinds import Object, Review
from reconciler.api.versions.shapes import mapping, objects

_OWN = "kubernetes.io/"


def is_counted(resource: str) -> bool:
    """Whether a resource is counted in whole units that are not overcommitted: its domain is foreign."""
    return "/" in resource and _OWN not in resource


def check_resources(container: Field) -> None:
    """Check that amounts are not negative, counted ones whole, and that no request exceeds its limit."""
    limits, requests = container["resources"]["limits"], container["resources"]["requests"]
    for part in (limits, requests):
        for name, amount in part.entries():
            found = quantity(amount)
            if found is not None and found.nanos < 0:
                amount.invalid("must be greater than or equal to 0")
            elif found is not None and is_counted(name) and found.nanos % NANO:
                amount.invalid("must be an integer")
    for name, amount in requests.entries():
        requested, limit = quantity(amount), quantity(limits[name])
        if requested is None:
            continue
        if limit is None:
            if is_counted(name):
                limits.required("Limit must be set for non overcommitable resources")
        elif is_counted(name) and requested != limit:
            amount.invalid(f"must be equal to {name} limit of {limit}")
        elif requested > limit:
            amount.invalid(f"must be less than or equal to {name} limit of {limit}")


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def merge_label_keys(pod: Object) -> None:
    """Add `matchLabelKeys` and `mismatchLabelKeys` with the pod's own labels to the selectors, in place."""
    labels = mapping(mapping(pod.get("metadata")).get("labels"))
    for term in _terms_with_label_keys(mapping(pod.get("spec"))):
        selector = term.get("labelSelector")
        if not isinstance(selector, dict):  # no selector selects nothing, whatever the keys
            continue
        added = [
            *_requirements(term.get("matchLabelKeys"), "In", labels),
            *_requirements(term.get("mismatchLabelKeys"), "NotIn", labels),
        ]
        if added:
            selector["matchExpressions"] = [*(selector.get("matchExpressions") or ()), *added]


def with_label_keys(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    """A pod of a manifest as the API server would store it. One with a uid was stored already."""
    if mapping(pod.get("metadata")).get("uid") or not any(
        term.get("matchLabelKeys") or term.get("mismatchLabelKeys")
        for term in _terms_with_label_keys(mapping(pod.get("spec")))
    ):
        return pod
    copied = deepcopy(dict(pod))
    merge_label_keys(copied)
    return copied


def _terms_with_label_keys(spec: Mapping[str, Any]) -> Iterator[Object]:
    """Everything with a selector and label keys. What has another shape is left to validation."""
    affinity = mapping(spec.get("affinity"))
    for kind in ("podAffinity", "podAntiAffinity"):
        of_kind = mapping(affinity.get(kind))
        yield from objects(of_kind.get(_REQUIRED))
        for weighted in objects(of_kind.get(_PREFERRED)):
            yield from objects([weighted.get("podAffinityTerm")])
    yield from objects(spec.get("topologySpreadConstraints"))


def _requirements(keys: object, operator: str, labels: Mapping[str, Any]) -> list[Object]:
    found = keys if isinstance(keys, list) else ()
    return [
        {"key": key, "operator": operator, "values": [labels[key]]}
        for key in found
        if isinstance(key, str) and key in labels
    ]


CONTAINERS = ("containers", "initContainers", "ephemeralContainers")
_GATED_ONLY = "only `spec.schedulingGates`, tolerations and images of a pod may change"


def default_pod(obj: Object, _now: datetime) -> None:
    """Set the fields that every stored pod has."""
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        return
    for key, value in _POD_DEFAULTS.items():
        spec.setdefault(key, value)
    # kubectl debug of 1.36 crashes without it.
    spec.setdefault("securityContext", {})
    for key in ("containers", "initContainers"):
        for container in objects(spec.get(key)):
            _default_container(container)
    if spec.get("schedulingGates") == []:
        del spec["schedulingGates"]
    status = obj.setdefault("status", {})
    if isinstance(status, dict):
        status.setdefault("phase", "Pending")


_POD_DEFAULTS = {
    "restartPolicy": "Always",
    "dnsPolicy": "ClusterFirst",
    "enableServiceLinks": True,
    "schedulerName": "default-scheduler",
    "terminationGracePeriodSeconds": 30,
}
_CONTAINER_DEFAULTS = {
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}


def _default_container(container: Object) -> None:
    for key, value in _CONTAINER_DEFAULTS.items():
        container.setdefault(key, value)
    image = container.get("image")
    if isinstance(image, str):
        path, _, _ = image.partition("@")
        tag = path.rpartition("/")[2].partition(":")[2]
        is_moving = "@" not in image and tag in ("", "latest")
        container.setdefault("imagePullPolicy", "Always" if is_moving else "IfNotPresent")
    for port in objects(container.get("ports")):
        port.setdefault("protocol", "TCP")
    resources = container.setdefault("resources", {})
    limits = mapping(mapping(resources).get("limits"))
    if limits and isinstance(requests := resources.setdefault("requests", {}), dict):
        for name, amount in limits.items():
            requests.setdefault(name, amount)


def prepare_pod(obj: Object) -> None:
    """What a new pod gets besides its defaults: keys of labels, its class, and the condition of gates."""
    merge_label_keys(obj)
    status = obj["status"] = {"qosClass": _qos_class(Field(obj)["spec"])}
    if mapping(obj.get("spec")).get("schedulingGates"):
        gated = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }
        status["conditions"] = [gated]


def _qos_class(spec: Field) -> str:
    """How early kubelets evict the pod: by CPUs and memory of all containers, or of the pod as a whole."""
    parts = (
        [spec]
        if spec["resources"].present
        else [*spec["containers"].items(), *spec["initContainers"].items()]
    )
    found = [
        [_positive(part["resources"][kind][name]) for kind in ("limits", "requests")]
        for part in parts
        for name in ("cpu", "memory")
    ]
    if not any(map(any, found)):
        return "BestEffort"
    # A request is its limit by default.
    equal = all(limit and request in (0, limit) for limit, request in found)
    return "Guaranteed" if equal else "Burstable"


def _positive(amount: Field) -> int:
    found = quantity(amount)
    return found.nanos if found is not None else 0


def check_pod(root: Field, review: Review) -> None:
    """Check a pod at creation or update."""
    if review.subresource == "status":
        _check_status(root["status"], {one["name"].text() for one in root["spec"]["resourceClaims"].items()})
    elif review.old is None:
        _check_pod_spec(root["spec"])
    elif review.subresource != "binding":
        _check_update(root["spec"], review.old["spec"])


def _check_pod_spec(spec: Field) -> None:
    if not spec["containers"].items():
        spec["containers"].required()
    names: set[str] = set()
    for key in ("containers", "initContainers"):
        for container in spec[key].items():
            dns_label(container["name"])
            container["name"].unique(names)
            container["image"].needed()
            check_resources(container)
    check_claims(spec)
    gates: set[str] = set()
    for gate in spec["schedulingGates"].items():
        label_name(gate["name"])
        gate["name"].unique(gates)
    if gates and spec["nodeName"].text():
        spec["nodeName"].forbidden("cannot be set until all schedulingGates have been cleared")


def check_claims(spec: Field) -> None:
    """Check the claims of a pod, and where its containers use them."""
    claims = check_claim_sources(spec["resourceClaims"])
    for key in CONTAINERS:
        for container in spec[key].items():
            used: set[tuple[str, str]] = set()
            for use in container["resources"]["claims"].items():
                name = use["name"].text()
                use.unique(used, (name, use["request"].text()))
                if name not in claims:
                    use["name"].note("FieldValueNotFound", f"Not found: {json.dumps(name)}")


def check_claim_sources(claims: Field, most: int | None = None) -> set[str]:
    """Check that each claim of a pod or of a group names one object. Returns their own names."""
    names: set[str] = set()
    for claim in named(claims, most):
        names.add(claim["name"].text())
        sources = [claim["resourceClaimName"], claim["resourceClaimTemplateName"]]
        given = [source for source in sources if source.present]
        if len(given) != 1:
            claim.invalid("must specify one of: `resourceClaimName`, `resourceClaimTemplateName`")
        for source in given:
            dns_subdomain(source)
    return names


def _check_status(status: Field, claims: Collection[str]) -> None:
    """Check a status. `claims` are the pod's own names for its claims."""
    status["phase"].text()
    for condition in status["conditions"].items():
        condition["type"].text()
    for entry in named(status["resourceClaimStatuses"]):
        if entry["name"].text() not in claims:
            entry["name"].invalid("must match the name of an entry in `spec.resourceClaims`")


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
    required = mapping(mapping(mapping(affinity).get("nodeAffinity")).get(_REQUIRED))
    terms = required.get("nodeSelectorTerms")
    return terms if isinstance(terms, list) else None


def _without_changeables(spec: Object, *, gated: bool) -> Object:
    dropped: Iterable[str] = ("schedulingGates", "tolerations", "activeDeadlineSeconds")
    kept = {key: value for key, value in spec.items() if key not in dropped}
    if gated:
        kept.pop("nodeSelector", None)
        kept.pop("affinity", None)
    for key in CONTAINERS:
        if isinstance(kept.get(key), list):
            kept[key] = [{**item, "image": ""} if isinstance(item, dict) else item for item in kept[key]]
    return kept
