"""The annotations of pods: their shapes, and functions to parse them."""

from collections.abc import Mapping
from typing import Any

from pydantic import Field, TypeAdapter, field_validator

from reconciler.api.koordinator.device import Minor, VirtualFunction
from reconciler.api.koordinator.json_annotations import read_as
from reconciler.api.koordinator.names import ALLOCATE_HINT, ALLOCATED, JOINT_ALLOCATE, PARTITION_SPEC
from reconciler.api.koordinator.selectors import LabelSelector
from reconciler.api.objects.model import Map, Model, Str, Tuple
from reconciler.api.objects.quantity import Quantity

SAME_PCIE = "SamePCIe"
APPLY_FOR_ALL = "ApplyForAll"
REQUESTS_AS_COUNT = "RequestsAsCount"
DEVICE_LEVEL = "DeviceLevel"
PCIE_LEVEL = "PCIeLevel"
RESTRICTED = "Restricted"
BEST_EFFORT = "BestEffort"
HONOR = "Honor"
PREFER = "Prefer"


class JointAllocate(Model):
    """Device types to allocate near each other. An unknown scope counts as none."""

    device_types: Tuple[Str] = ()
    required_scope: Str = ""


class Hint(Model):
    """Requirements for the devices of one type. An unknown value counts as not set."""

    selector: LabelSelector | None = None
    vf_selector: LabelSelector | None = None
    allocate_strategy: Str = ""
    required_topology_scope: Str = ""
    exclusive_policy: Str = ""


class PartitionSpec(Model):
    """Which GPU partitions a pod accepts."""

    allocate_policy: Str = BEST_EFFORT
    ring_bus_bandwidth: Quantity | None = None

    @field_validator("allocate_policy", mode="after")
    @classmethod
    def _empty_is_best_effort(cls, policy: str) -> str:
        return policy or BEST_EFFORT


class Extension(Model):
    """The parts of an allocation other than shares."""

    vfs: Tuple[VirtualFunction] = ()
    gpu_shared_resource_template: Str = ""


class AllocatedDevice(Model):
    """One device in the result annotation."""

    minor: Minor
    resources: Map[Quantity] = Field(default_factory=dict)
    id: Str = ""
    extension: Extension | None = None


NO_HINT = Hint()

_JOINT: TypeAdapter[Any] = TypeAdapter(JointAllocate | None)
_HINTS: TypeAdapter[Any] = TypeAdapter(Map[Hint | None])
_SPEC: TypeAdapter[Any] = TypeAdapter(PartitionSpec | None)
_ALLOCATED: TypeAdapter[Any] = TypeAdapter(Map[Tuple[AllocatedDevice]])


def joint_allocate(subject: str, annotations: Mapping[str, str]) -> JointAllocate | None:
    """The joint allocation that the pod requests. Raises Malformed."""
    text = annotations.get(JOINT_ALLOCATE)
    return None if text is None else read_as(_JOINT, subject, JOINT_ALLOCATE, text)


def hints(subject: str, annotations: Mapping[str, str]) -> dict[str, Hint]:
    """Device type -> hint, without null hints. Raises Malformed."""
    text = annotations.get(ALLOCATE_HINT)
    if text is None:
        return {}
    found: dict[str, Hint | None] = read_as(_HINTS, subject, ALLOCATE_HINT, text)
    return {kind: hint for kind, hint in found.items() if hint is not None}


def partition_spec(subject: str, annotations: Mapping[str, str]) -> PartitionSpec | None:
    """The partitions that a pod accepts; None without the annotation. Raises Malformed."""
    text = annotations.get(PARTITION_SPEC)
    return None if text is None else read_as(_SPEC, subject, PARTITION_SPEC, text)


def allocated(subject: str, annotations: Mapping[str, str]) -> dict[str, tuple[AllocatedDevice, ...]]:
    """Device type -> devices that the pod holds. Raises Malformed."""
    text = annotations.get(ALLOCATED)
    return {} if text is None else read_as(_ALLOCATED, subject, ALLOCATED, text)
