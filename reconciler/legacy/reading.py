"""One JSON object of any served version becomes one typed object, or is refused alone."""

from collections.abc import Mapping
from typing import Any

from reconciler.errors import Malformed
from reconciler.legacy import composite, mixins, v1beta1, versions
from reconciler.legacy.amounts import spelled_out
from reconciler.legacy.extensions import extended
from reconciler.legacy.leniency import put_right
from reconciler.legacy.shapes import mapping
from reconciler.legacy.slips import refuse_slips
from reconciler.legacy.spelling import invalid_names
from reconciler.objects.claims import DeviceClass, ResourceClaim, ResourceClaimTemplate
from reconciler.objects.core import Node, Pod
from reconciler.objects.meta import ApiObject
from reconciler.objects.slices import ResourceSlice
from reconciler.objects.taintrules import DeviceTaintRule
from reconciler.objects.validating import subject_of, validated

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

_CORE = ("Node", "Pod")

_SERVED = {
    **dict.fromkeys(MODELS, ("v1", "v1beta2", "v1beta1", "v1alpha3")),
    "DeviceTaintRule": ("v1", "v1beta2", "v1alpha3"),
    "Node": ("v1",),
    "Pod": ("v1",),
}

_INLINE = (f"{GROUP}/v1beta1", f"{GROUP}/v1alpha3")
"""Versions with devices under `basic`, and requests without `exactly`"""


def is_ours(raw: Mapping[str, Any]) -> bool:
    """Whether this is a kind that we read, in whatever version. Without any version it is taken for one."""
    kind = raw.get("kind")
    group = _group_of(raw)
    if kind in _CORE:
        return group == ""
    # `v1` alone is another group's spelling, but of no other kind with these names: a slip to be told about.
    return kind in MODELS and group in (GROUP, "")


def read(raw: Mapping[str, Any]) -> ApiObject:
    """The typed object. Raises Malformed naming kind, name, field and reason."""
    return typed(to_v1(raw))


def to_v1(raw: Mapping[str, Any], warnings: list[str] | None = None) -> Mapping[str, Any]:
    """The object as v1 spells it, what we do not read included. Raises Malformed for a version not served.

    Where `warnings` can be given, what published manifests get wrong is put right, and a line added for it.
    """
    kind = raw["kind"]
    subject = subject_of(raw)
    served = [version if kind in _CORE else f"{GROUP}/{version}" for version in _SERVED[kind]]
    given = raw.get("apiVersion")
    if not given:
        raise Malformed(subject, "apiVersion", f"is missing; write {served[0]}")
    if given not in served:
        raise Malformed(subject, "apiVersion", f"{given} is not read; use {' or '.join(served)}")
    if warnings is not None:
        notes = warnings
        raw = put_right(raw, lambda line: notes.append(f"{subject}: {line}"))
    match kind:
        case "ResourceSlice":
            raw = extended(_slice_to_v1(raw, subject, warnings), subject)
            if warnings is not None:
                warnings += [f"{subject}: {line}" for line in invalid_names(mapping(raw.get("spec")))]
        case "ResourceClaim" | "ResourceClaimTemplate" if given in _INLINE:
            convert = v1beta1.claim_to_v1 if kind == "ResourceClaim" else v1beta1.template_to_v1
            raw = convert(raw, subject)
        case "ResourceClaim" | "ResourceClaimTemplate":
            v1beta1.refuse_in_v1(raw, subject)
    refuse_slips(raw, subject)
    return {**raw, "apiVersion": served[0]}


def _slice_to_v1(raw: Mapping[str, Any], subject: str, warnings: list[str] | None) -> Mapping[str, Any]:
    """A slice of any shape with flat devices, nothing included, amounts under `value`."""
    if not isinstance(raw.get("spec"), Mapping):
        return raw
    if composite.is_first_revision(raw["spec"]):
        return _with_versions(raw, composite.flattened(raw["spec"], subject), subject, warnings)
    if raw["apiVersion"] in _INLINE:
        raw = v1beta1.slice_to_v1(raw, subject)
    else:
        v1beta1.refuse_in_v1(raw, subject)
    if mixins.uses(raw["spec"]):
        spec = spelled_out(mixins.expanded(raw["spec"], subject))
        return _with_versions(raw, spec, subject, warnings)
    if raw["apiVersion"] == f"{GROUP}/v1alpha3":
        return {**raw, "spec": spelled_out(raw["spec"])}
    if warnings is None:
        return raw
    spec = spelled_out(raw["spec"])
    if spec != raw["spec"]:
        warnings.append(f"{subject}: amounts belong under `value` since v1beta1; read as if they were")
    return {**raw, "spec": spec}


def _with_versions(
    raw: Mapping[str, Any], spec: Mapping[str, Any], subject: str, warnings: list[str] | None
) -> Mapping[str, Any]:
    mended, changes = versions.mended(spec)
    if changes and warnings is not None:
        warnings.append(f"{subject}: versions that are no semver are read as such: {', '.join(changes)}")
    return {**raw, "spec": mended}


def typed(raw: Mapping[str, Any]) -> ApiObject:
    """The typed object of what `to_v1` gives. Raises Malformed naming kind, name, field and reason."""
    return validated(MODELS[raw["kind"]], raw)


def _group_of(raw: Mapping[str, Any]) -> str:
    return str(raw.get("apiVersion") or "").rpartition("/")[0]
