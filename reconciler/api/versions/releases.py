"""Since which release of Kubernetes 1 a field exists. A test compares it with the schemas of 1.32 to 1.37.

What is in a part that is newer itself is not listed: all of `firstAvailable` is as new as that field.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from reconciler.api.objects import claims, gangs, slices
from reconciler.api.objects.semantics import (
    BINDING_CONDITIONS,
    COMPATIBILITY_GROUPS,
    COMPOSITE_GROUPS,
    CONSUMABLE_CAPACITY,
    DERIVED_ATTRIBUTES,
    EXTENDED_RESOURCES,
    GATES,
    LIST_ATTRIBUTES,
    NEWEST_MINOR,
    NODE_ALLOCATABLE,
    OPTIONAL_NODE_OPERATIONS,
    PARTITIONABLE_DEVICES,
    PRIORITIZED_LIST,
    SHARED_CAPACITY,
    SHARING_AFFINITY,
    TAINTS,
)
from reconciler.api.versions.ignored import parts_of

OLDEST_MINOR = 32
"""The oldest release of Kubernetes 1 that objects are written for"""


class Since(NamedTuple):
    """When a field appeared."""

    minor: int
    gate: str = ""
    """The gate that it needs"""
    is_harmless: bool = False
    """Whether no answer changes if a server drops it"""


_PARTITIONS = Since(33, PARTITIONABLE_DEVICES)
_TAINTS = Since(33, TAINTS)
_SHARES = Since(34, CONSUMABLE_CAPACITY)
_BINDING = Since(34, BINDING_CONDITIONS)
_LISTS = Since(36, LIST_ATTRIBUTES)
_OPERATIONS = Since(37, OPTIONAL_NODE_OPERATIONS, is_harmless=True)
_DERIVED = Since(37, DERIVED_ATTRIBUTES)
_REQUESTED = Since(NEWEST_MINOR + 1, SHARED_CAPACITY)

SINCE: Mapping[type, Mapping[str, Since]] = {
    slices.Device: {
        **dict.fromkeys(("allNodes", "consumesCounters", "nodeName", "nodeSelector"), _PARTITIONS),
        "taints": _TAINTS,
        "allowMultipleAllocations": _SHARES,
        **dict.fromkeys(("bindingConditions", "bindingFailureConditions", "bindsToNode"), _BINDING),
        "nodeAllocatableResources": Since(37, NODE_ALLOCATABLE),
    },
    slices.ResourceSliceSpec: {
        **dict.fromkeys(("perDeviceNodeSelection", "sharedCounters"), _PARTITIONS),
        "partitionTypeAttribute": Since(37, is_harmless=True),
        "skipNodeOperations": _OPERATIONS,
        "sharingAffinity": Since(NEWEST_MINOR + 1, SHARING_AFFINITY),
    },
    slices.Counter: dict.fromkeys(("requestPolicy", "valueFrom"), _REQUESTED),
    slices.CounterConsumption: {"compatibilityGroups": Since(37, COMPATIBILITY_GROUPS, is_harmless=True)},
    slices.DeviceAttribute: dict.fromkeys(("bools", "ints", "strings", "versions"), _LISTS),
    slices.DeviceCapacity: {"requestPolicy": _SHARES},
    claims.DeviceRequest: {"firstAvailable": Since(33, PRIORITIZED_LIST)},
    claims.ExactDeviceRequest: {"tolerations": _TAINTS, "capacity": _SHARES, "derivedAttributes": _DERIVED},
    claims.DeviceSubRequest: {"capacity": _SHARES, "derivedAttributes": _DERIVED},
    claims.DeviceConstraint: {"distinctAttribute": _SHARES},
    claims.DeviceClassSpec: {"extendedResourceName": Since(34, EXTENDED_RESOURCES)},
    claims.Allocation: {"allocationTimestamp": Since(34, is_harmless=True)},
    claims.AllocatedDevice: {
        "tolerations": _TAINTS,
        **dict.fromkeys(("bindingConditions", "bindingFailureConditions"), _BINDING),
        **dict.fromkeys(("consumedCapacity", "shareID"), _SHARES),
        "consumedCounters": _REQUESTED,
        "skipNodeOperations": _OPERATIONS,
    },
    gangs.PodGroupSpec: {
        "parentCompositePodGroupName": Since(37, COMPOSITE_GROUPS),
        "preemptionPolicy": Since(37),
    },
}
"""Model -> its field as the API spells it"""


class Newer(NamedTuple):
    """A field of an object that a release does not have, or has off."""

    path: str
    field: str
    since: Since


def newer_than(model: type, raw: Mapping[str, Any], minor: int) -> Iterator[Newer]:
    """The fields of an object in today's shape that a release does not have."""
    return (one for one in _dated(model, raw) if one.since.minor > minor)


def off_in(model: type, raw: Mapping[str, Any], minor: int) -> Iterator[str]:
    """The gates that an object needs and that a release has, but off by default."""
    for one in _dated(model, raw):
        gate = GATES.get(one.since.gate)
        if gate is not None and one.since.minor <= minor and (gate.on_since or minor + 1) > minor:
            yield one.since.gate


def _dated(model: type, raw: Mapping[str, Any]) -> Iterator[Newer]:
    for kind, path, part in parts_of(model, raw):
        for field, since in SINCE.get(kind, {}).items():
            if part.get(field) is not None:
                yield Newer(f"{path}.{field}", field, since)
