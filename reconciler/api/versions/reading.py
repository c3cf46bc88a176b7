"""Converts one JSON object of any served version to a typed object, or rejects it."""

from collections.abc import Mapping
from typing import Any

from reconciler.api.objects import storage
from reconciler.api.objects.claims import DeviceClass, ResourceClaim, ResourceClaimTemplate
from reconciler.api.objects.core import Namespace, Node, Pod, PodDisruptionBudget
from reconciler.api.objects.gangs import CoschedulingPodGroup, PodGroup
from reconciler.api.objects.meta import ApiObject
from reconciler.api.objects.slices import DeviceTaintRule, ResourceSlice
from reconciler.api.objects.validating import subject_of, validated
from reconciler.api.versions import proposals, v1beta1
from reconciler.api.versions.extensions import has_trees, names_sources, with_annotated_fields, with_trees
from reconciler.api.versions.mistakes import fix_mistakes, invalid_names, reject_misplaced_fields
from reconciler.api.versions.proposals import with_value_keys
from reconciler.api.versions.shapes import mapping
from reconciler.errors import Malformed

GROUP = "resource.k8s.io"

MODELS: dict[str, type[ApiObject]] = {
    "ResourceSlice": ResourceSlice,
    "ResourceClaim": ResourceClaim,
    "ResourceClaimTemplate": ResourceClaimTemplate,
    "DeviceClass": DeviceClass,
    "DeviceTaintRule": DeviceTaintRule,
    "Node": Node,
    "Pod": Pod,
    "Namespace": Namespace,
    "PodGroup": PodGroup,
    "CoschedulingPodGroup": CoschedulingPodGroup,
    "PodDisruptionBudget": PodDisruptionBudget,
    **storage.MODELS,
}
"""By the name of the model. Two API groups have a kind PodGroup; each has its own model."""

_CORE = ("Node", "Pod", "Namespace", "PersistentVolume", "PersistentVolumeClaim")
_STABLE = {
    **dict.fromkeys(storage.STORAGE, "storage.k8s.io/v1"),
    **dict.fromkeys(_CORE, "v1"),
    "PodDisruptionBudget": "policy/v1",
}
"""Kinds that are read in one version and shape"""
_POD_GROUPS = {
    "scheduling.k8s.io": ("PodGroup", ("v1alpha2",)),
    "scheduling.x-k8s.io": ("CoschedulingPodGroup", ("v1alpha1",)),
}
"""API group -> name of the model, versions that are read"""

_SERVED = {
    **dict.fromkeys(MODELS, ("v1", "v1beta2", "v1beta1", "v1alpha3")),
    "DeviceTaintRule": ("v1", "v1beta2", "v1alpha3"),
}

_INLINE = (f"{GROUP}/v1beta1", f"{GROUP}/v1alpha3")
"""Versions with devices under `basic`, and requests without `exactly`"""


def add_model(model: type[ApiObject], version: str) -> None:
    """Read one more kind, which exists in one version: `scheduling.koordinator.sh/v1alpha1`."""
    MODELS[model.__name__] = model
    _STABLE[model.__name__] = version


def is_ours(raw: Mapping[str, Any]) -> bool:
    """Whether this is a kind that we read, in any version or without one."""
    kind = raw.get("kind")
    group = _group_of(raw)
    if kind in _STABLE:
        return group == _STABLE[kind].rpartition("/")[0]
    if kind == "PodGroup":
        return group in _POD_GROUPS
    # `v1` without a group is wrong, but no other group has these kinds: reading it reports the mistake.
    return kind in MODELS and group in (GROUP, "")


def needs_conversion(raw: Mapping[str, Any]) -> bool:
    """Whether servers of today do not read this: an old version, or a shape of a proposal."""
    kind = str(raw.get("kind"))
    if not is_ours(raw) or kind in _STABLE:
        return False
    spec = mapping(raw.get("spec"))
    if kind == "ResourceSlice" and (
        proposals.is_first_revision(spec) or proposals.uses(spec) or names_sources(spec)
    ):
        return True
    return raw.get("apiVersion") == f"{GROUP}/v1alpha3" and kind != "DeviceTaintRule"


def read(raw: Mapping[str, Any]) -> ApiObject:
    """The typed object. Raises Malformed naming kind, name, field and reason."""
    return typed(to_v1(raw))


def to_v1(raw: Mapping[str, Any], warnings: list[str] | None = None) -> Mapping[str, Any]:
    """The object in the shape of v1, with all its fields. Raises Malformed for a version that is not served.

    With `warnings`, frequent mistakes of published manifests are fixed, and a line is added for each.
    """
    kind = raw["kind"]
    subject = subject_of(raw)
    if (group := _group_of(raw)) in _POD_GROUPS:
        return _pod_group(raw, group, subject)
    served = [_STABLE[kind]] if kind in _STABLE else [f"{GROUP}/{version}" for version in _SERVED[kind]]
    given = raw.get("apiVersion")
    if not given:
        raise Malformed(subject, "apiVersion", f"is missing; write {served[0]}")
    if given not in served:
        raise Malformed(subject, "apiVersion", f"{given} is not supported; use {' or '.join(served)}")
    if warnings is not None:
        notes = warnings
        raw = fix_mistakes(raw, lambda line: notes.append(f"{subject}: {line}"))
    match kind:
        case "ResourceSlice":
            raw = _as_trees(raw, subject, warnings) if has_trees(raw, subject) else raw
            raw = with_annotated_fields(_slice_to_v1(raw, subject, warnings), subject)
            if warnings is not None:
                warnings += [f"{subject}: {line}" for line in invalid_names(mapping(raw.get("spec")))]
        case "ResourceClaim" | "ResourceClaimTemplate" if given in _INLINE:
            convert = v1beta1.claim_to_v1 if kind == "ResourceClaim" else v1beta1.template_to_v1
            raw = convert(raw, subject)
        case "ResourceClaim" | "ResourceClaimTemplate":
            v1beta1.refuse_in_v1(raw, subject)
    reject_misplaced_fields(raw, subject)
    return {**raw, "apiVersion": served[0]}


def _slice_to_v1(raw: Mapping[str, Any], subject: str, warnings: list[str] | None) -> Mapping[str, Any]:
    """A slice of any shape with flat devices, mixins expanded, amounts under `value`."""
    if not isinstance(raw.get("spec"), Mapping):
        return raw
    if proposals.is_first_revision(raw["spec"]):
        return _with_versions(raw, proposals.flattened(raw["spec"], subject), subject, warnings)
    if raw["apiVersion"] in _INLINE:
        if warnings is not None:
            warnings += _left_out(raw, subject)
        raw = v1beta1.slice_to_v1(raw, subject)
    else:
        v1beta1.refuse_in_v1(raw, subject)
    if proposals.uses(raw["spec"]):
        spec = with_value_keys(proposals.expanded(raw["spec"], subject))
        return _with_versions(raw, spec, subject, warnings)
    if raw["apiVersion"] == f"{GROUP}/v1alpha3":
        return {**raw, "spec": with_value_keys(raw["spec"])}
    if warnings is None:
        return raw
    spec = with_value_keys(raw["spec"])
    if spec != raw["spec"]:
        warnings.append(f"{subject}: amounts belong under `value` since v1beta1; read as if they were there")
    return {**raw, "spec": spec}


def _left_out(raw: Mapping[str, Any], subject: str) -> list[str]:
    """A line if devices have no `basic`. A server may have newer kinds of devices."""
    devices = raw["spec"].get("devices")
    found = [
        number
        for number, device in enumerate(devices if isinstance(devices, list) else ())
        if v1beta1.is_later_kind(device)
    ]
    if not found:
        return []
    more = f" ({len(found)} in all)" if len(found) > 1 else ""
    return [f"{subject}: spec.devices[{found[0]}]: has no `basic`, so this device is left out{more}"]


def _as_trees(raw: Mapping[str, Any], subject: str, warnings: list[str] | None) -> Mapping[str, Any]:
    """A slice of any shape in that of the first revision, with the trees of its annotation."""
    spec = raw.get("spec")
    if isinstance(spec, Mapping) and not proposals.is_first_revision(spec):
        raw = _slice_to_v1(raw, subject, warnings)
    return with_trees(raw, subject)


def _with_versions(
    raw: Mapping[str, Any], spec: Mapping[str, Any], subject: str, warnings: list[str] | None
) -> Mapping[str, Any]:
    converted, changes = proposals.with_semver(spec)
    if changes and warnings is not None:
        warnings.append(f"{subject}: versions that are not semver are converted: {', '.join(changes)}")
    return {**raw, "spec": converted}


def typed(raw: Mapping[str, Any]) -> ApiObject:
    """The typed object for a result of `to_v1`. Raises Malformed naming kind, name, field and reason."""
    name, _ = _POD_GROUPS.get(_group_of(raw), (raw["kind"], ()))
    return validated(MODELS[name], raw)


def _pod_group(raw: Mapping[str, Any], group: str, subject: str) -> Mapping[str, Any]:
    _, versions = _POD_GROUPS[group]
    served = [f"{group}/{version}" for version in versions]
    if raw["apiVersion"] not in served:
        raise Malformed(
            subject, "apiVersion", f"{raw['apiVersion']} is not supported; use {' or '.join(served)}"
        )
    return {**raw, "kind": "PodGroup"}  # an item of a listing has the name of its resource


def _group_of(raw: Mapping[str, Any]) -> str:
    return str(raw.get("apiVersion") or "").rpartition("/")[0]
