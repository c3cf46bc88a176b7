"""Question and answer of a what-if analysis as values, and the answer as JSON with stable field names."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct

from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod
from reconciler.api.objects.gangs import GangKey, GangRules, Tier
from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.state.pods.groups import NoRules
from reconciler.state.pods.placed import Placed as Members


class Unit(Struct, frozen=True):
    """Unallocated claims that need one node together, or a pod that requests devices of a plugin."""

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
    rules: GangRules | None = None
    """Of a tree of groups: what counts in place of `tiers`"""
    placed: Mapping[str, Members] = {}
    """Of a tree: the members that keep their place, by their group"""
    nodes: tuple[str, ...] = ()
    """Nodes of members that keep their place"""
    devices: tuple[DeviceID, ...] = ()
    """Devices of members that keep their place"""
    refusal: NoRules | None = None
    """Why it cannot be placed anywhere"""


class Scenario(Struct, frozen=True):
    """Units to place under assumptions. Without units: which claims are lost, and where they fit instead."""

    units: tuple[Unit | Gang, ...] = ()
    """The units of one copy"""
    count: int | None = None
    """Number of copies; None means as many as fit"""
    without: frozenset[ObjectKey] = frozenset()
    """Claims that are assumed to hold no devices, and pods with devices of plugins, assumed to be gone"""
    drained: frozenset[str] = frozenset()
    """Nodes that are assumed to be removed with their devices"""


DeviceChoice = tuple[ObjectKey, str, DeviceID]
"""Claim, request and allocated device; of a plugin's devices the pod and the type"""


class Limit(StrEnum):
    """Why no more copies were tried."""

    ASKED = "asked"
    """The requested number of copies is placed"""
    FULL = "full"
    """The next copy does not fit"""
    GAVE_UP = "gave-up"
    """The search for the next copy gave up: it is unknown whether it fits"""
    BOUND = "bound"
    """The maximum number of copies is placed; more may fit"""
    NOTHING = "nothing"
    """The scenario has no units"""


class Placed(Struct, frozen=True):
    """A unit that fits, or a pod of a gang that fits."""

    unit: str
    copy: int
    """From 1"""
    node: str
    """Empty if no node is needed"""
    devices: tuple[DeviceChoice, ...]


class PlacedGang(Struct, frozen=True):
    """A gang of which enough pods fit together."""

    unit: str
    copy: int
    """From 1"""
    seats: tuple[Placed, ...]
    """Its pods with a place"""
    left_out: tuple[str, ...]
    """Its pods without one, as units"""
    domain: tuple[tuple[str, str], ...]
    """Topology key -> value that all places share"""


class Refused(Struct, frozen=True):
    """A unit that does not fit."""

    unit: str
    copy: int
    reason: str
    """A value of `Reason`"""
    message: str


class Lost(Struct, frozen=True):
    """Claims that lose their devices on a drained node, and where they fit instead."""

    claims: tuple[ObjectKey, ...]
    """The claims of one pod are allocated together; empty for a pod with devices of a plugin"""
    pod: ObjectKey | None
    devices: tuple[DeviceID, ...]
    """The devices that they hold now"""
    elsewhere: Placed | Refused


class Answer(Struct, frozen=True):
    """The answer to a scenario."""

    freed: tuple[ObjectKey, ...]
    """Claims and pods that hold no devices in the scenario"""
    lost: tuple[Lost, ...]
    copies: int
    """Copies with all units placed"""
    asked: int | None
    limit: Limit
    placed: tuple[Placed, ...]
    refused: Refused | None
    """The unit that stopped the next copy"""
    gangs: tuple[PlacedGang, ...] = ()
    """The gangs among `placed`, which has their pods"""

    @property
    def fits(self) -> bool:
        """Whether all requested copies fit, and all lost claims fit elsewhere."""
        enough = self.limit is Limit.NOTHING or self.copies >= (self.asked or 1)
        return enough and not any(isinstance(lost.elsewhere, Refused) for lost in self.lost)


def as_json(result: Answer) -> dict[str, Any]:
    """The whole answer."""
    return {
        "fits": result.fits,
        "copies": result.copies,
        "copiesAsked": result.asked,
        "limit": str(result.limit),
        "placed": [_placed_as_json(one) for one in result.placed],
        "gangs": [_gang_as_json(one) for one in result.gangs],
        "refused": _refused_as_json(result.refused) if result.refused is not None else None,
        "freed": [str(key) for key in result.freed],
        "lost": [_lost_as_json(one) for one in result.lost],
    }


def _placed_as_json(placed: Placed) -> dict[str, Any]:
    devices = [
        {"claim": str(claim), "request": request, **device._asdict()}
        for claim, request, device in placed.devices
    ]
    return {"unit": placed.unit, "copy": placed.copy, "node": placed.node or None, "devices": devices}


def _gang_as_json(gang: PlacedGang) -> dict[str, Any]:
    return {
        "unit": gang.unit,
        "copy": gang.copy,
        "pods": [{"unit": seat.unit, "node": seat.node} for seat in gang.seats],
        "leftOut": list(gang.left_out),
        "domain": dict(gang.domain),
    }


def _refused_as_json(refused: Refused) -> dict[str, Any]:
    return {
        "unit": refused.unit,
        "copy": refused.copy,
        "reason": str(refused.reason),
        "message": refused.message,
    }


def _lost_as_json(lost: Lost) -> dict[str, Any]:
    return {
        "claims": [str(key) for key in lost.claims],
        "pod": str(lost.pod) if lost.pod is not None else None,
        "devices": [device._asdict() for device in lost.devices],
        "elsewhere": _placed_as_json(lost.elsewhere) if isinstance(lost.elsewhere, Placed) else None,
        "refused": _refused_as_json(lost.elsewhere) if isinstance(lost.elsewhere, Refused) else None,
    }
