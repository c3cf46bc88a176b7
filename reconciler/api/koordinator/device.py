"""The Device object: the devices of one machine. One object for each node, with the node's name."""

from typing import Annotated, Literal

from pydantic import Field

from reconciler.api.objects.meta import ApiObject
from reconciler.api.objects.model import Bool, Int, Map, Model, Str, Tuple, blank
from reconciler.api.objects.quantity import Quantity

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

    kind: Literal["Device"] = "Device"
    spec: DeviceSpec = blank(DeviceSpec)
