"""Koordinator's Device object, the names in its objects, amounts of devices with their arithmetic, and
the rules of a decision (KOO-1, KOO-2, KOO-15, KOO-18, KOO-19).
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Final, Literal

from msgspec import Struct, field
from pydantic import Field, model_validator

from reconciler.api.objects import selectors
from reconciler.api.objects.meta import ApiObject
from reconciler.api.objects.model import Bool, Int, Map, Model, Str, Tuple
from reconciler.api.objects.quantity import Format, Quantity
from reconciler.api.validation.columns import NAMED
from reconciler.api.validation.kinds import GroupVersion, Object, ServedKind
from reconciler.api.validation.structural import AnyObject, Fields, Flag, Integer, Items, Text, checked
from reconciler.api.versions.shapes import mapping
from reconciler.errors import Malformed, Rejected

PLUGIN = "koordinator"
"""The name of the plugin"""

DOMAIN = "scheduling.koordinator.sh/"
NODE_DOMAIN = "node.koordinator.sh/"

GPU, RDMA, FPGA = "gpu", "rdma", "fpga"
TYPES = (GPU, RDMA, FPGA)
"""Device types, in the order of decisions and reports."""

NVIDIA_GPU = "nvidia.com/gpu"
AMD_GPU = "amd.com/gpu"
HYGON_DCU = "dcu.com/gpu"
KOORD_GPU = "koordinator.sh/gpu"
GPU_SHARED = "koordinator.sh/gpu.shared"
GPU_CORE = "koordinator.sh/gpu-core"
GPU_MEMORY = "koordinator.sh/gpu-memory"
GPU_MEMORY_RATIO = "koordinator.sh/gpu-memory-ratio"
NPU_CORE = "huawei.com/npu-core"
NPU_CPU = "huawei.com/npu-cpu"
NPU_DVPP = "huawei.com/npu-dvpp"
KOORD_RDMA = "koordinator.sh/rdma"
KOORD_FPGA = "koordinator.sh/fpga"

WHOLE_GPU = frozenset({NVIDIA_GPU, AMD_GPU, HYGON_DCU})
"""Resource names of vendors: their amount is a number of GPUs."""

TYPE_OF = {
    **dict.fromkeys(
        (
            *sorted(WHOLE_GPU),
            KOORD_GPU,
            GPU_SHARED,
            GPU_CORE,
            GPU_MEMORY,
            GPU_MEMORY_RATIO,
            NPU_CORE,
            NPU_CPU,
            NPU_DVPP,
        ),
        GPU,
    ),
    KOORD_RDMA: RDMA,
    KOORD_FPGA: FPGA,
}
"""Resource name -> device type. Other resources are ignored."""

OLD_DOMAIN = "kubernetes.io/"
CURRENT_NAME = {
    OLD_DOMAIN + name.partition("/")[2]: name for name in TYPE_OF if name.startswith("koordinator.sh/")
}
"""Old name -> current name, for pods and recorded allocations."""

JOINT_ALLOCATE = DOMAIN + "device-joint-allocate"
ALLOCATE_HINT = DOMAIN + "device-allocate-hint"
PARTITION_SPEC = DOMAIN + "gpu-partition-spec"
PARTITIONS = DOMAIN + "gpu-partitions"
ALLOCATED = DOMAIN + "device-allocated"

PARTITION_POLICY = NODE_DOMAIN + "gpu-partition-policy"
GPU_VENDOR = NODE_DOMAIN + "gpu-vendor"
GPU_MODEL = NODE_DOMAIN + "gpu-model"
WELL_PLANNED = NODE_DOMAIN + "secondary-device-well-planned"
ISOLATION_PROVIDER = "koordinator.sh/gpu-isolation-provider"


Shares = Mapping[str, int]

NOTHING: Shares = MappingProxyType({})
LIMIT = 2**60
"""Above any amount of a device, and sums of a few still fit 64 bits."""


def whole(subject: str, name: str, quantity: Quantity) -> int:
    """A quantity as an integer, rounded up. Raises Malformed if it is negative or not below LIMIT."""
    amount = quantity.integer
    if not 0 <= amount < LIMIT:
        raise Malformed(subject, name, f"{quantity} is out of range for a device")
    return amount


def shares_of(subject: str, quantities: Mapping[str, Quantity]) -> dict[str, int]:
    """Quantities as integers by current name; if both names are set, the current one counts."""
    current = {CURRENT_NAME.get(name, name): whole(subject, name, q) for name, q in quantities.items()}
    return current | {name: whole(subject, name, q) for name, q in quantities.items() if name in current}


def fits(wanted: Shares, free: Shares) -> bool:
    """Whether the device has enough of each wanted resource that it reports; others are not checked."""
    return all(amount <= free[name] for name, amount in wanted.items() if name in free)


def any_left(free: Shares) -> bool:
    """Whether any amount is free."""
    return any(amount > 0 for amount in free.values())


def minus(these: Shares, those: Shares) -> dict[str, int]:
    """`these` - `those` for every name of `these`, at least zero."""
    return {name: max(amount - those.get(name, 0), 0) for name, amount in these.items()}


def plus(these: Shares, those: Shares) -> dict[str, int]:
    """`these` + `those` for all names of both."""
    return {name: these.get(name, 0) + those.get(name, 0) for name in {**these, **those}}


def least(these: Shares, those: Shares) -> dict[str, int]:
    """The minimum for each name that both have."""
    return {name: min(amount, those[name]) for name, amount in these.items() if name in those}


def printed(shares: Shares) -> dict[str, Any]:
    """Amounts as quantity strings, names sorted; memory with binary suffixes."""
    return {
        name: str(
            Quantity(Quantity.of(shares[name]).nanos, Format.BINARY if name == GPU_MEMORY else Format.DECIMAL)
        )
        for name in sorted(shares)
    }


Minor = Annotated[Int, Field(ge=0, lt=2**31)]
Number = Annotated[Int, Field(ge=-(2**31), lt=2**31)]


class Topology(Model):
    """The place of a device in the machine."""

    socket_id: Number = Field(default=-1, alias="socketID")
    node_id: Number = Field(default=-1, alias="nodeID")
    """The NUMA node, -1 if it is not known."""
    pcie_id: Str = Field(default="", alias="pcieID")
    bus_id: Str = Field(default="", alias="busID")


class VirtualFunction(Model):
    """One virtual function of a NIC. The node agent sets its number to -1."""

    minor: Number = 0
    bus_id: Str = Field(default="", alias="busID")


class VFGroup(Model):
    """Virtual functions with common labels."""

    labels: Map[Str] = Field(default_factory=dict)
    vfs: Tuple[VirtualFunction] = ()


class DeviceInfo(Model):
    """One device of the machine."""

    UNREAD: ClassVar = frozenset({"moduleID", "conditions"})
    """Fields that are known, and have no effect"""
    type: Str
    id: Str = ""
    minor: Minor = 0
    health: Bool = False
    labels: Map[Str] = Field(default_factory=dict)
    resources: Map[Quantity] = Field(default_factory=dict)
    topology: Topology | None = None
    vf_groups: Tuple[VFGroup] = ()


class DeviceSpec(Model):
    """The devices, in no particular order."""

    devices: Tuple[DeviceInfo] = ()


class Device(ApiObject):
    """scheduling.koordinator.sh/v1alpha1: the devices of the node that has the object's name."""

    UNREAD: ClassVar = frozenset({"apiVersion", "status"})
    kind: Literal["Device"] = "Device"
    spec: DeviceSpec = Field(default_factory=DeviceSpec)


GROUP = "scheduling.koordinator.sh"
VERSION = "v1alpha1"

_SHORT: Final = Integer(short=True)
_TOPOLOGY: Final = Fields(
    {"socketID": _SHORT, "nodeID": _SHORT, "pcieID": Text(), "busID": Text()},
    required=("socketID", "nodeID", "pcieID"),
)
_FUNCTION: Final = Fields({"minor": _SHORT, "busID": Text()}, required=("minor",))
_DEVICE: Final = Fields(
    {
        "type": Text(words=tuple(sorted(TYPES))),
        "minor": _SHORT,
        "moduleID": _SHORT,
        "id": Text(),
        "health": Flag(),
        "labels": AnyObject(),
        "resources": AnyObject(),
        "topology": _TOPOLOGY,
        "vfGroups": Items(Fields({"vfs": Items(_FUNCTION)})),
    }
)


def default_device(obj: Object, _now: datetime) -> None:
    """Set the default of health: a device is unhealthy unless the object states that it is healthy."""
    devices = mapping(obj.get("spec")).get("devices")
    for device in devices if isinstance(devices, list) else ():
        if isinstance(device, dict):
            device.setdefault("health", False)


DEVICE: Final = ServedKind(
    "Device", "devices", "device", (GroupVersion(GROUP, VERSION),),
    description="The devices of one node, as Koordinator's koordlet publishes them.",
    namespaced=False, has_status=True, counts_generations=True, unconditional=False, columns=NAMED,
    defaults=default_device, rules=checked(Fields({"spec": Fields({"devices": Items(_DEVICE)})})),
)  # fmt: skip
"""Served on real servers once Koordinator's resource definition is installed."""


def is_device(raw: Mapping[str, Any]) -> bool:
    """Whether this is a Device of any version."""
    group = str(raw.get("apiVersion") or "").rpartition("/")[0]
    return raw.get("kind") == "Device" and group == GROUP


class LabelSelector(selectors.LabelSelector):
    """All requirements must hold; an empty selector matches everything."""

    @model_validator(mode="after")
    def _readable(self) -> "LabelSelector":
        try:
            self.matches({})
        except Rejected as exc:
            raise ValueError(str(exc)) from exc
        return self

    def matches(self, labels: Mapping[str, str]) -> bool:
        return self.parsed.matches(labels)


class Semantics(StrEnum):
    """Whose rules apply where Koordinator's proposals and its release differ."""

    PROPOSAL = "proposal"
    UPSTREAM = "upstream"


class Strategy(StrEnum):
    """Which of several suitable devices are preferred: those with the most or the least free shares."""

    LEAST = "LeastAllocated"
    MOST = "MostAllocated"


DEFAULT_WEIGHTS: Mapping[str, int] = dict.fromkeys((GPU_MEMORY_RATIO, GPU_MEMORY, KOORD_RDMA, KOORD_FPGA), 1)


class Scoring(Struct, frozen=True):
    """How devices are scored."""

    strategy: Strategy = Strategy.LEAST
    weights: Mapping[str, int] = field(default_factory=lambda: DEFAULT_WEIGHTS)


class Rules(Struct, frozen=True):
    """All inputs of a decision other than the pod and the machines."""

    semantics: Semantics = Semantics.PROPOSAL
    scoring: Scoring | None = Scoring()
    """None: all devices are equally good."""
    templates: Mapping[str, Mapping[str, Shares]] = field(default_factory=dict)
    """vendor-model -> template -> shares. Such a GPU can be divided only by a template."""
    template_resources: frozenset[str] = frozenset({NPU_CORE})
    """Requests for one of these must match a template."""
    unshared_models: frozenset[tuple[str, str]] = frozenset()
    """Vendor and model of GPUs that cannot be shared."""

    @property
    def upstream(self) -> bool:
        return self.semantics is Semantics.UPSTREAM


def matching_templates(
    each: Shares, templates: Mapping[str, Mapping[str, Shares]]
) -> dict[str, tuple[str, ...]]:
    """vendor-model -> names of the templates with exactly the requested shares."""
    found = {
        model: tuple(name for name, shares in of_model.items() if dict(shares) == dict(each))
        for model, of_model in templates.items()
    }
    return {model: names for model, names in found.items() if names}


FULL = 100


def device_score(scoring: Scoring | None, wanted: Shares, total: Shares, free: Shares) -> int:
    """0 to 100 by the utilization of the device with the request: the weighted mean over its resources."""
    if scoring is None:
        return 0
    weighed = weight_sum = 0
    for name, weight in scoring.weights.items():
        capacity = total.get(name, 0)
        if capacity <= 0:
            continue
        available = free.get(name, 0)
        would_use = capacity - available + wanted.get(name, 0) if available <= capacity else capacity
        weighed += weight * _part(scoring.strategy, would_use, capacity)
        weight_sum += weight
    return weighed // weight_sum if weight_sum else 0


def summed(amounts: Iterable[Shares]) -> dict[str, int]:
    """The sum of the shares of several devices."""
    total: dict[str, int] = {}
    for shares in amounts:
        total = plus(total, shares)
    return total


def _part(strategy: Strategy, used: int, capacity: int) -> int:
    if strategy is Strategy.MOST:
        return min(used, capacity) * FULL // capacity
    return 0 if used > capacity else (capacity - used) * FULL // capacity
