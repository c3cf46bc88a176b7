"""Koordinator's Device object, and amounts of devices with their arithmetic (KOO-1).

One Device describes all devices of the node that has its name.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from reconciler.api.objects.meta import ApiObject
from reconciler.api.objects.model import Bool, Int, Map, Model, Str, Tuple
from reconciler.api.objects.quantity import Format, Quantity
from reconciler.errors import Malformed
from reconciler.plugins.koordinator.names import CURRENT_NAME, GPU_MEMORY

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


def is_device(raw: Mapping[str, Any]) -> bool:
    """Whether this is a Device of any version."""
    group = str(raw.get("apiVersion") or "").rpartition("/")[0]
    return raw.get("kind") == "Device" and group == GROUP


class Expression(Model):
    """One requirement on one label."""

    key: Str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: Tuple[Str] = ()

    @model_validator(mode="after")
    def _values_suit_the_operator(self) -> "Expression":
        if self.operator in ("In", "NotIn") and not self.values:
            raise ValueError(f"{self.operator} needs values")
        if self.operator in ("Exists", "DoesNotExist") and self.values:
            raise ValueError(f"{self.operator} takes no values")
        return self

    def matches(self, labels: Mapping[str, str]) -> bool:
        there = self.key in labels
        match self.operator:
            case "In":
                return there and labels[self.key] in self.values
            case "NotIn":
                return not there or labels[self.key] not in self.values
            case "Exists":
                return there
            case _:
                return not there


class LabelSelector(Model):
    """All requirements must hold; an empty selector matches everything."""

    match_labels: Map[Str] = Field(default_factory=dict)
    match_expressions: Tuple[Expression] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(labels.get(key) == value for key, value in self.match_labels.items()) and all(
            expression.matches(labels) for expression in self.match_expressions
        )
