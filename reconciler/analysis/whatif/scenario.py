"""A what-if scenario, and the cluster state that it starts from."""

from msgspec import Struct, field

from reconciler.api.koordinator.device import Device
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Namespace, Node, Pod
from reconciler.api.objects.gangs import GangKey, Tier
from reconciler.api.objects.meta import ApiObject, DeviceID, ObjectKey
from reconciler.state.koordinator.rules import Rules
from reconciler.state.pods.groups import PodGroups
from reconciler.state.store import Store


class Unit(Struct, frozen=True):
    """Unallocated claims that need one node together, or a pod that requests Koordinator's devices."""

    name: str
    """For users: `claim default/a`, `pod default/p`"""
    claims: tuple[ResourceClaim, ...]
    pod: Pod | None = None
    """The pod that uses the claims, if any; it restricts the nodes"""
    held: tuple[ResourceClaim, ...] = ()
    """Claims of the pod that keep their devices"""


class Gang(Struct, frozen=True):
    """Pods of which enough must fit together, or none."""

    name: str
    """For users: `gang default/g`"""
    key: GangKey
    members: tuple[Unit, ...]
    """Pods without a place, in the order of `placement.place`; claims may be in several of them"""
    least: int
    """How many of them must fit"""
    tiers: tuple[Tier, ...] = ()
    """The tightest first"""
    nodes: tuple[str, ...] = ()
    """Nodes of members that keep their place"""
    devices: tuple[DeviceID, ...] = ()
    """Devices of members that keep their place"""


class Scenario(Struct, frozen=True):
    """Units to place under assumptions. Without units: which claims are lost, and where they fit instead."""

    units: tuple[Unit | Gang, ...] = ()
    """The units of one copy"""
    count: int | None = None
    """Number of copies; None means as many as fit"""
    without: frozenset[ObjectKey] = frozenset()
    """Claims that are assumed to hold no devices, and pods with Koordinator's devices, assumed to be gone"""
    drained: frozenset[str] = frozenset()
    """Nodes that are assumed to be removed with their devices"""


class Baseline(Struct, frozen=True, eq=False):
    """The state before the scenario. The answer changes the store, so use it only once."""

    store: Store
    nodes: tuple[Node, ...]
    """Node objects: the store does not keep the taints, cordons and allocatable resources of nodes"""
    namespaces: tuple[Namespace, ...] = ()
    """Namespaces whose labels are known"""
    supposed: tuple[Node, ...] = ()
    """Nodes in the store without a Node object: named only by slices, or assumed"""
    devices: tuple[Device, ...] = ()
    """Koordinator's Device objects"""
    machine_rules: Rules = field(default_factory=Rules)
    """The rules for them"""
    storage: tuple[ApiObject, ...] = ()
    """Storage objects, for pods with volumes"""
    volumes: bool = True
    """Whether they are considered"""
    groups: PodGroups = field(default_factory=PodGroups)
    """PodGroups of pods that exist"""
