"""The answer as values. The command and the status port present it."""

from enum import StrEnum

from msgspec import Struct

from reconciler.api.objects.meta import DeviceID, ObjectKey

Device = tuple[ObjectKey, str, DeviceID]
"""Claim, request and allocated device; of Koordinator's devices the pod and the type"""


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
    devices: tuple[Device, ...]


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
    """The claims of one pod are allocated together; empty for a pod with Koordinator's devices"""
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
