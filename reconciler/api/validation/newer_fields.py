"""What manifests are refused for as by a server: fields that are new in 1.37 and groups of scheduling.k8s.io
that break the rules of the API.

A server of an older release, or without the gate, drops such a field before it validates (`PrepareForCreate`
in pkg/registry), so it is refused only where it is kept. Older mistakes are reported by doctor, and the rest
of an object is used. Source: CLM-9, NAR-7, DEV-6, V-1.
"""

from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from typing import Any

from reconciler.api.objects.claims import ResourceClaim, ResourceClaimSpec, ResourceClaimTemplate
from reconciler.api.objects.gangs import CompositePodGroup, CompositePodGroupSpec, PodGroup, PodGroupSpec
from reconciler.api.objects.meta import ApiObject
from reconciler.api.objects.semantics import (
    COMPOSITE_GROUPS,
    GROUP_CLAIMS,
    GROUP_PREEMPTION,
    NEWEST_MINOR,
    Semantics,
)
from reconciler.api.objects.slices import ResourceSlice
from reconciler.api.objects.validating import subject_of
from reconciler.api.validation.claims import check_derived
from reconciler.api.validation.devices import (
    check_groups,
    check_node_resources,
    check_skipped_operations,
)
from reconciler.api.validation.fields import Field, WrongType
from reconciler.api.validation.kinds import Refuses
from reconciler.api.validation.pod_groups import check_composite_spec, check_group_spec
from reconciler.api.validation.slices import check_partition_type
from reconciler.api.versions.extensions import ANNOTATION
from reconciler.api.versions.ignored import parts_of
from reconciler.api.versions.kinds import SINCE
from reconciler.api.versions.shapes import mappings
from reconciler.errors import Malformed

_OLDER: Mapping[type, Mapping[str, str]] = {
    PodGroupSpec: {"resourceClaims": GROUP_CLAIMS},
    CompositePodGroupSpec: {"preemptionPolicy": GROUP_PREEMPTION},
}
"""Fields with a gate that are checked here, and that are as old as their kind"""


@cache
def dropped_fields(rules: Semantics) -> Mapping[type, Mapping[str, str]]:
    """Model -> its fields that are checked here and that a server drops -> the gate that one needs, if any"""
    found: dict[type, dict[str, str]] = {}
    for model, fields in SINCE.items():
        for field, since in fields.items():
            off = since.gate != "" and not rules.has(since.gate)
            if since.minor == NEWEST_MINOR and (rules.old or off):
                found.setdefault(model, {})[field] = since.gate
    for model, gates in _OLDER.items():
        for field, gate in gates.items():
            if not rules.has(gate):
                found.setdefault(model, {})[field] = gate
    return found


def as_kept(model: type, raw: Mapping[str, Any], rules: Semantics) -> Mapping[str, Any]:
    """An object in the shape of v1 without what a server drops; the same object if that is nothing."""
    dropped = dropped_fields(rules)
    if not any(key in part for kind, _, part in parts_of(model, raw) for key in dropped.get(kind, ())):
        return raw
    kept = deepcopy(dict(raw))
    for kind, _, part in parts_of(model, kept):
        assert isinstance(part, dict)
        for key in dropped.get(kind, ()):
            part.pop(key, None)
    return kept


def check_newer_fields(raw: Mapping[str, Any], read: ApiObject, refuses: Refuses, rules: Semantics) -> None:
    """Raise Malformed for fields of an object that a server would refuse.

    raw      in the shape of v1
    refuses  says of derived attributes that are refused also which of them do not compile
    """
    root = Field(as_kept(type(read), raw, rules) if dropped_fields(rules) else raw)
    try:
        match read:
            case ResourceClaim():
                _derived(root, root["spec"], read.spec, refuses)
            case ResourceClaimTemplate():
                _derived(root, root["spec"]["spec"], read.spec.spec, refuses)
            case ResourceSlice():
                _slice(root["spec"], read)
            case PodGroup():
                check_group_spec(root["spec"])
            case CompositePodGroup() if rules.has(COMPOSITE_GROUPS):  # else no server knows the kind
                check_composite_spec(root["spec"])
    except WrongType as exc:  # in a field that no model has
        field, _, what = str(exc).partition(": ")
        raise Malformed(subject_of(raw), field, what) from exc
    if root.causes:
        first, *others = [(cause.field, cause.message) for cause in root.causes]
        raise Malformed(subject_of(raw), *first, others)


def _derived(root: Field, spec: Field, read: ResourceClaimSpec, refuses: Refuses) -> None:
    """One that only does not compile is left to the decision, like a selector."""
    wants = [one for request in read.devices.requests for one in (request.exactly, *request.first_available)]
    if any(one is not None and one.derived_attributes for one in wants):  # as in few claims
        check_derived(spec["devices"], Refuses())
        if root.causes:
            root.causes.clear()
            check_derived(spec["devices"], refuses)


def _slice(spec: Field, read: ResourceSlice) -> None:
    check_skipped_operations(spec["skipNodeOperations"])
    check_partition_type(spec)
    uses = any(one.get("nodeAllocatableResources") for one in mappings(spec["devices"].value))
    draws = [draw for device in read.spec.devices for draw in device.consumes_counters]
    # Groups of our annotation stand in the same fields, without the limits of the API.
    groups = any(draw.compatibility_groups for draw in draws) and ANNOTATION not in read.metadata.annotations
    for device in spec["devices"].items() if uses or groups else ():
        check_node_resources(device)
        for draw in device["consumesCounters"].items() if groups else ():
            check_groups(draw["compatibilityGroups"])
