"""What manifests are refused for as by a server: fields that are new in 1.37 and groups of scheduling.k8s.io
that break the rules of the API.

Older mistakes are reported by doctor, and the rest of an object is used. Source: CLM-9, NAR-7, DEV-6, V-1.
"""

from collections.abc import Mapping
from typing import Any

from reconciler.api.objects.claims import ResourceClaim, ResourceClaimSpec, ResourceClaimTemplate
from reconciler.api.objects.gangs import CompositePodGroup, PodGroup
from reconciler.api.objects.meta import ApiObject
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
from reconciler.api.versions.shapes import mappings
from reconciler.errors import Malformed


def check_newer_fields(raw: Mapping[str, Any], read: ApiObject, refuses: Refuses) -> None:
    """Raise Malformed for fields of an object that a server would refuse.

    raw      in the shape of v1
    refuses  says of derived attributes that are refused also which of them do not compile
    """
    root = Field(raw)
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
            case CompositePodGroup():
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
