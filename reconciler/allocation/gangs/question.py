"""What is asked about a gang, and the answers."""

from dataclasses import dataclass, field

from msgspec import Struct

from reconciler.allocation.policies.selection import PLAIN, Policies
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod
from reconciler.api.objects.gangs import GangKey, Tier
from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.api.objects.plan import Plan


class Member(Struct, frozen=True):
    """A gated pod of the gang."""

    pod: Pod
    claims: tuple[ResourceClaim, ...]
    """To be allocated for it. A claim that several members share is in each of them"""
    held: tuple[ResourceClaim, ...] = ()
    """Its claims that are allocated already"""


@dataclass(frozen=True, slots=True)
class GangQuestion:
    """A gang and its members that have no place yet."""

    gang: GangKey
    members: tuple[Member, ...]
    """In their order (`placement.place`): the first are preferred if not all fit"""
    least: int
    """How many of the members must get a place: the gang's minimum without those in `nodes`"""
    tiers: tuple[Tier, ...] = ()
    """The tightest first"""
    nodes: tuple[str, ...] = ()
    """Nodes of members that have a place already. They determine the domain of tiers by label"""
    devices: tuple[DeviceID, ...] = ()
    """Devices of members that have a place already. They determine the domain of tiers by attribute"""
    policies: Policies = field(default=PLAIN, compare=False)
    """Which nodes of a domain, and which devices of a node, to prefer"""


class Seat(Struct, frozen=True):
    """A place for one member."""

    pod: ObjectKey
    node: str
    plans: tuple[Plan, ...]
    """For its claims that no earlier seat allocates"""


@dataclass(frozen=True, slots=True)
class GangGranted:
    """Places for at least the minimum."""

    seats: tuple[Seat, ...]
    """In the order of the members"""
    left_out: tuple[ObjectKey, ...] = ()
    """Members without a place; they are decided alone later"""
    domain: tuple[tuple[Tier, str], ...] = ()
    """The tiers that are met, each with the value that all seats share"""
    steps: int = 0
    policy: str = field(default="", compare=False)
    """The placement policies that ordered nodes and devices; empty for first fit"""
    order: tuple[ObjectKey, ...] = field(default=(), compare=False)
    """The members with a seat in the order in which each suited its node beside those before it"""


class GangUnsatisfied(Struct, frozen=True):
    """No places for enough members."""

    reason: str
    """An identifier of `reasons`"""
    message: str
    fits: int = 0
    """How many members fit together at most, as far as the search found"""
    short: tuple[tuple[str, int], ...] = ()
    """What is short in the best domain, with amounts"""
    steps: int = 0
