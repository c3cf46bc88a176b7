"""One JSON object of any served version becomes one typed object, or is refused alone."""

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ValidationError

from reconciler.errors import Malformed
from reconciler.legacy import v1beta1
from reconciler.objects.claims import DeviceClass, ResourceClaim, ResourceClaimTemplate
from reconciler.objects.core import Node, Pod
from reconciler.objects.meta import ApiObject
from reconciler.objects.slices import ResourceSlice
from reconciler.objects.taintrules import DeviceTaintRule

GROUP = "resource.k8s.io"

MODELS: dict[str, type[ApiObject]] = {
    "ResourceSlice": ResourceSlice,
    "ResourceClaim": ResourceClaim,
    "ResourceClaimTemplate": ResourceClaimTemplate,
    "DeviceClass": DeviceClass,
    "DeviceTaintRule": DeviceTaintRule,
    "Node": Node,
    "Pod": Pod,
}

_SERVED = {
    **dict.fromkeys(MODELS, ("v1", "v1beta2", "v1beta1")),
    "DeviceTaintRule": ("v1", "v1beta2", "v1alpha3"),
    "Node": ("v1",),
    "Pod": ("v1",),
}

_TO_V1: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "ResourceSlice": v1beta1.slice_to_v1,
    "ResourceClaim": v1beta1.claim_to_v1,
    "ResourceClaimTemplate": v1beta1.template_to_v1,
}


def is_ours(raw: Mapping[str, Any]) -> bool:
    """Whether this is a kind that we read, in whatever version."""
    kind = raw.get("kind")
    if kind in ("Node", "Pod"):
        return raw.get("apiVersion") == "v1"
    return kind in MODELS and _group_of(raw) in (GROUP, "")


def read(raw: Mapping[str, Any]) -> ApiObject:
    """The typed object. Raises Malformed naming kind, name, field and reason."""
    kind = raw["kind"]
    subject = subject_of(raw)
    version = str(raw.get("apiVersion") or "").rpartition("/")[2]
    if not version:
        raise Malformed(subject, "apiVersion", f"is missing; write {GROUP}/v1")
    if version not in _SERVED[kind]:
        raise Malformed(
            subject, "apiVersion", f"{raw['apiVersion']} is not read; use one of {', '.join(_SERVED[kind])}"
        )
    if version == "v1beta1":
        raw = _TO_V1[kind](raw) if kind in _TO_V1 else raw
    elif kind in _TO_V1:
        v1beta1.refuse_in_v1(raw, subject)
    try:
        return MODELS[kind].model_validate(raw)
    except ValidationError as exc:
        raise refusal(subject, exc) from exc


def subject_of(raw: Mapping[str, Any]) -> str:
    """`Kind namespace/name`, as far as the object says."""
    metadata = raw.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    name = metadata.get("name") or metadata.get("generateName") or "(without a name)"
    namespace = metadata.get("namespace")
    return f"{raw.get('kind')} {namespace}/{name}" if namespace else f"{raw.get('kind')} {name}"


def refusal(subject: str, exc: ValidationError) -> Malformed:
    """The first problem that pydantic found, as one line."""
    problem = exc.errors(include_url=False, include_context=False)[0]
    reason = problem["msg"].removeprefix("Value error, ")
    got = problem.get("input")
    if isinstance(got, str | int | float) and repr(got) not in reason:
        reason = f"{reason}, got {str(got)[:80]!r}"
    return Malformed(subject, _path(problem["loc"]), reason)


def _path(location: tuple[int | str, ...]) -> str:
    path = ""
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part
    return path


def _group_of(raw: Mapping[str, Any]) -> str:
    return str(raw.get("apiVersion") or "").rpartition("/")[0]
