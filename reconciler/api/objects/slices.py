"""ResourceSlice and DeviceTaintRule, resource.k8s.io/v1. Source: docs/reference/rules/slices.md."""

from functools import lru_cache
from itertools import chain
from typing import Literal, Self

from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass
from typing_extensions import TypedDict

from reconciler.api.objects.claims import DeviceSelector
from reconciler.api.objects.meta import ApiObject, PoolID
from reconciler.api.objects.model import LEAN, Bool, Int, Map, Model, Str, Tuple
from reconciler.api.objects.quantity import ZERO, Quantity
from reconciler.api.objects.selectors import NodeSelector

MAX_NAMES = 512
"""Distinct attributes and capacities of one slice. Each becomes a column for all devices of the cluster."""


class DeviceAttribute(TypedDict, total=False):
    """A typed value. The API requires exactly one field; without any the attribute has no value.

    A plain dict: a fleet has millions, which are decoded in a third of the time of other parts.
    """

    int: Int
    bool: Bool
    string: Str
    version: Str
    ints: tuple[Int, ...]
    bools: tuple[Bool, ...]
    strings: tuple[Str, ...]
    versions: tuple[Str, ...]


class CapacityRange(Model):
    """Amounts that a request may be rounded up to: from `min` to `max` in steps."""

    min: Quantity | None = None
    max: Quantity | None = None
    step: Quantity | None = None


class CapacityPolicy(Model):
    """How much of a capacity one share consumes. Source: DEV-5, CAP-3."""

    default: Quantity | None = None
    valid_values: Tuple[Quantity] = ()
    valid_range: CapacityRange | None = None


@dataclass(frozen=True, slots=True, kw_only=True, config=LEAN)
class DeviceCapacity:
    """A capacity of a device."""

    value: Quantity = ZERO
    request_policy: CapacityPolicy | None = None


class CounterSource(TypedDict, total=False):
    """The capacity of which a request says the amount (SCC-1)."""

    capacityName: Str


class Counter(TypedDict, total=False):
    """An amount in a counter set, or consumed from one; 0 if absent. A plain dict, as attributes are."""

    value: Quantity
    requestPolicy: CapacityPolicy
    valueFrom: CounterSource


@dataclass(frozen=True, slots=True, kw_only=True, config=LEAN)
class CounterSet:
    """Counters that the devices of a pool share."""

    name: Str
    counters: Map[Counter] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, config=LEAN)
class CounterConsumption:
    """The counters that one device consumes from one counter set."""

    counter_set: Str
    counters: Map[Counter] = Field(default_factory=dict)
    compatibility_groups: Tuple[Str] = ()


class CompatibleOnlyWith(Model):
    """CEL over another device: must be true for each device that is allocated next to this one."""

    expression: Str = ""


class NodeAllocatableMapping(Model):
    """What a device is of a resource of its node: a multiple of a capacity, or an amount a device (NAR-2)."""

    capacity_key: Str | None = None
    capacity_multiplier: Quantity | None = None
    device_multiplier: Quantity | None = None


class NodeAllocatableOverhead(Model):
    """What each pod, and each container with the claim, needs of its node beside a device (NAR-3)."""

    per_pod: Quantity | None = None
    per_container: Quantity | None = None


class NodeAllocatableResource(Model):
    """How a device uses a resource of its node that pods request as well, such as CPU. Source: KEP-5517."""

    mapping: NodeAllocatableMapping | None = None
    overhead: NodeAllocatableOverhead | None = None


class DeviceTaint(Model):
    """A reason not to use a device unless a request tolerates it."""

    key: Str = ""
    value: Str = ""
    effect: Str = ""
    time_added: Str | None = None

    def __str__(self) -> str:
        return f"{self.key}{f'={self.value}' if self.value else ''}:{self.effect}"


@dataclass(frozen=True, slots=True, kw_only=True, config=LEAN)
class Device:
    """One device of a slice."""

    name: Str
    attributes: Map[DeviceAttribute] = Field(default_factory=dict)
    capacity: Map[DeviceCapacity] = Field(default_factory=dict)
    consumes_counters: Tuple[CounterConsumption] = ()
    node_name: Str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: Bool | None = None
    taints: Tuple[DeviceTaint] = ()
    binds_to_node: Bool | None = None
    binding_conditions: Tuple[Str] = ()
    binding_failure_conditions: Tuple[Str] = ()
    allow_multiple_allocations: Bool | None = None
    node_allocatable_resources: Map[NodeAllocatableResource] = Field(default_factory=dict)
    compatible_only_with: CompatibleOnlyWith | None = None
    """Not part of the API; servers drop it. Also read from an annotation of the slice"""


class AffinityExtractor(Model):
    """What a driver takes from opaque configurations: holders of a shared device must agree on it (AFF-1)."""

    selector: DeviceSelector | None = None
    cel: Map[Str] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, config=LEAN)
class ResourcePool:
    """The pool of a slice, and the number of slices of the complete pool."""

    name: Str
    generation: Int = 0
    resource_slice_count: Int = Field(ge=1)


@dataclass(frozen=True, slots=True, kw_only=True, config=LEAN)
class ResourceSliceSpec:
    """Devices, or counters, of one pool."""

    driver: Str = Field(min_length=1)
    pool: ResourcePool
    node_name: Str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: Bool | None = None
    per_device_node_selection: Bool | None = None
    devices: Tuple[Device] = ()
    shared_counters: Tuple[CounterSet] = ()
    skip_node_operations: Tuple[Str] = ()
    sharing_affinity: Tuple[AffinityExtractor] = ()

    def names(self) -> frozenset[str]:
        """The names of attributes and capacities of all devices, as written."""
        layouts = {(*device.attributes, *device.capacity) for device in self.devices}  # most have the same
        return _shared(frozenset(chain.from_iterable(layouts)))


@lru_cache(1 << 10)
def _shared(names: frozenset[str]) -> frozenset[str]:
    """The first one of equal names: who keeps those of all slices keeps few objects."""
    return names


class ResourceSlice(ApiObject):
    """Part of a pool, as a driver publishes it."""

    kind: Literal["ResourceSlice"] = "ResourceSlice"
    spec: ResourceSliceSpec

    @model_validator(mode="after")
    def _of_few_names(self) -> Self:
        if has_many_names(self.spec):
            what = f"{len(self.spec.names())} different attributes and capacities"
            raise ValueError(f"its devices have {what}; at most {MAX_NAMES} are allowed")
        return self

    @property
    def pool_id(self) -> PoolID:
        return PoolID(self.spec.driver, self.spec.pool.name)

    @property
    def text(self) -> bytes | None:
        """The JSON that `read` read or `with_text` wrote; None for a slice that was made in another way."""
        return self.__dict__.get("_text")

    def with_text(self) -> Self:
        """The slice with its JSON, written anew in the current version."""
        text = self.model_dump_json(by_alias=True, exclude_unset=True, exclude_none=True)
        self.__dict__["_text"] = text.encode()
        return self

    @classmethod
    def read(cls, text: bytes) -> Self:
        """The slice in JSON of the current version, which stays its text."""
        found = cls.model_validate_json(text, by_alias=True, by_name=False)
        found.__dict__["_text"] = text
        return found


def has_many_names(spec: ResourceSliceSpec) -> bool:
    """Whether the devices of a slice have more than MAX_NAMES attributes and capacities."""
    if sum([len(device.attributes) + len(device.capacity) for device in spec.devices]) <= MAX_NAMES:
        return False
    return len(spec.names()) > MAX_NAMES


class DeviceTaintSelector(Model):
    """What a device must have; what is absent matches any."""

    driver: Str | None = None
    pool: Str | None = None
    device: Str | None = None
    device_class_name: Str | None = None
    """The device must match all selectors of this class. Only v1alpha3 of Kubernetes 1.33 and 1.34 has it"""
    selectors: Tuple[DeviceSelector] = ()
    """The device must match these, too. Of the same versions"""


class DeviceTaintRuleSpec(Model):
    """Devices and their taint. Without a selector the rule matches nothing, as Kubernetes documents."""

    device_selector: DeviceTaintSelector | None = None
    taint: DeviceTaint


class DeviceTaintRule(ApiObject):
    """A rule that taints every device that its selector matches."""

    kind: Literal["DeviceTaintRule"] = "DeviceTaintRule"
    spec: DeviceTaintRuleSpec
