"""The annotations of pods: their shapes, how they are parsed, and the patch that writes a decision."""

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, AliasChoices, Field, TypeAdapter, field_validator
from pydantic_core import PydanticCustomError

from reconciler.api.objects.core import GATE, Pod
from reconciler.api.objects.model import ON_USE, Map, Model, Str, Tuple
from reconciler.api.objects.pinning import Operation, pin
from reconciler.api.objects.quantity import Quantity
from reconciler.api.objects.validating import read_as
from reconciler.plugins.koordinator import vocabulary as koord
from reconciler.plugins.koordinator.vocabulary import LabelSelector, Minor, VirtualFunction

SAME_PCIE = "SamePCIe"
APPLY_FOR_ALL = "ApplyForAll"
REQUESTS_AS_COUNT = "RequestsAsCount"
DEVICE_LEVEL = "DeviceLevel"
PCIE_LEVEL = "PCIeLevel"
RESTRICTED = "Restricted"
BEST_EFFORT = "BestEffort"
HONOR = "Honor"
PREFER = "Prefer"
SCOPES = ("Device", "PCIe", "NUMANode", "Node")
"""The values of `requiredTopologyScope`, the narrowest first."""


class JointAllocate(Model):
    """Device types to allocate near each other."""

    device_types: Tuple[Str] = ()
    required_scope: Str = ""


class Hint(Model):
    """Requirements for the devices of one type."""

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


def _one_of(*allowed: str) -> AfterValidator:
    """Accepts the values of an enumeration; an empty text counts as not set."""

    def check(given: str) -> str:
        if given and given not in allowed:
            said = {"given": given, "allowed": ", ".join(allowed)}
            raise PydanticCustomError("enumeration", "'{given}' is not one of {allowed}", said)
        return given

    return AfterValidator(check)


DeviceType = Annotated[Str, _one_of(*koord.TYPES)]


class StrictJointAllocate(JointAllocate):
    """Without unknown values, which may be misspelt."""

    device_types: Tuple[DeviceType] = ()
    required_scope: Annotated[Str, _one_of(SAME_PCIE)] = ""


class StrictHint(Hint):
    """Without unknown values, which may be misspelt."""

    allocate_strategy: Annotated[Str, _one_of(APPLY_FOR_ALL, REQUESTS_AS_COUNT)] = ""
    required_topology_scope: Annotated[Str, _one_of(*SCOPES)] = ""
    exclusive_policy: Annotated[Str, _one_of(DEVICE_LEVEL, PCIE_LEVEL)] = ""


class StrictPartitionSpec(PartitionSpec):
    """Without unknown values. The proposal has two names for the bandwidth."""

    allocate_policy: Annotated[Str, _one_of(RESTRICTED, BEST_EFFORT)] = BEST_EFFORT
    ring_bus_bandwidth: Quantity | None = Field(
        default=None, validation_alias=AliasChoices("ringBusBandwidth", "ringAllReduceBandwidth")
    )


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


NO_HINT = Hint.model_construct()

_ALLOCATED: TypeAdapter[Any] = TypeAdapter(Map[Tuple[AllocatedDevice]], config=ON_USE)


class Shapes(NamedTuple):
    """The shapes of the annotations with which a pod requests devices."""

    joint: TypeAdapter[Any]
    hints: TypeAdapter[Any]
    spec: TypeAdapter[Any]


LENIENT = Shapes(
    TypeAdapter(JointAllocate | None, config=ON_USE),
    TypeAdapter(Map[Hint | None], config=ON_USE),
    TypeAdapter(PartitionSpec | None, config=ON_USE),
)
"""Unknown values count as not set, as in the release."""
STRICT = Shapes(
    TypeAdapter(StrictJointAllocate | None, config=ON_USE),
    TypeAdapter(dict[DeviceType, StrictHint | None] | None, config=ON_USE),
    TypeAdapter(StrictPartitionSpec | None, config=ON_USE),
)
"""Unknown values are refused."""


def joint_allocate(
    subject: str, annotations: Mapping[str, str], shapes: Shapes = LENIENT
) -> JointAllocate | None:
    """The joint allocation that the pod requests. Raises Malformed."""
    text = annotations.get(koord.JOINT_ALLOCATE)
    return None if text is None else read_as(shapes.joint, subject, koord.JOINT_ALLOCATE, text)


def hints(subject: str, annotations: Mapping[str, str], shapes: Shapes = LENIENT) -> dict[str, Hint]:
    """Device type -> hint, without null hints. Raises Malformed."""
    text = annotations.get(koord.ALLOCATE_HINT)
    if text is None:
        return {}
    found: dict[str, Hint | None] | None = read_as(shapes.hints, subject, koord.ALLOCATE_HINT, text)
    return {kind: hint for kind, hint in (found or {}).items() if hint is not None}


def partition_spec(
    subject: str, annotations: Mapping[str, str], shapes: Shapes = LENIENT
) -> PartitionSpec | None:
    """The partitions that a pod accepts; None without the annotation. Raises Malformed."""
    text = annotations.get(koord.PARTITION_SPEC)
    return None if text is None else read_as(shapes.spec, subject, koord.PARTITION_SPEC, text)


def allocated(subject: str, annotations: Mapping[str, str]) -> dict[str, tuple[AllocatedDevice, ...]]:
    """Device type -> devices that the pod holds. Raises Malformed."""
    text = annotations.get(koord.ALLOCATED)
    return {} if text is None else read_as(_ALLOCATED, subject, koord.ALLOCATED, text)


_OWN_PATH = f"/metadata/annotations/{koord.ALLOCATED.replace('/', '~1')}"


def allocation_patch(pod: Pod, node: str, text: str) -> list[Operation]:
    """A JSON patch that records devices of a node in a pod. It does not touch unknown fields."""
    record: Operation = {"op": "add", "path": "/metadata/annotations", "value": {koord.ALLOCATED: text}}
    if pod.metadata.annotations:
        record = {**record, "path": _OWN_PATH, "value": text}
    gates = [number for number, gate in enumerate(pod.spec.scheduling_gates) if gate.name == GATE]
    return [
        record,
        *([] if pod.spec.node_name else pin(pod, node)),
        *({"op": "remove", "path": f"/spec/schedulingGates/{number}"} for number in reversed(gates)),
    ]
