"""What is answered. How it is shown is for the command and the status port."""

from dataclasses import dataclass
from enum import StrEnum

from reconciler.api.objects.meta import DeviceID, ObjectKey

Device = tuple[ObjectKey, str, DeviceID]
"""Claim, request, and what it got"""


class Limit(StrEnum):
    """Why no further copy was tried."""

    ASKED = "asked"
    """There are as many as were asked for"""
    FULL = "full"
    """The next one does not fit"""
    GAVE_UP = "gave-up"
    """The search for the next one was given up: it may fit or not"""
    BOUND = "bound"
    """No more are tried than that; more may fit"""
    NOTHING = "nothing"
    """There was nothing to place"""


@dataclass(frozen=True, slots=True)
class Placed:
    """A unit that would fit."""

    unit: str
    copy: int
    """From 1"""
    node: str
    """Empty for what no node is needed for"""
    devices: tuple[Device, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """A unit that would not."""

    unit: str
    copy: int
    reason: str
    """Of `Reason`"""
    message: str


@dataclass(frozen=True, slots=True)
class Lost:
    """Claims that hold devices on a node that is gone, and what would become of them."""

    claims: tuple[ObjectKey, ...]
    """Those of one pod are decided together"""
    pod: ObjectKey | None
    devices: tuple[DeviceID, ...]
    """Which they hold now"""
    elsewhere: Placed | Refused


@dataclass(frozen=True, slots=True)
class Answer:
    """What would be."""

    freed: tuple[ObjectKey, ...]
    """Claims that would hold nothing"""
    lost: tuple[Lost, ...]
    copies: int
    """Placed in full"""
    asked: int | None
    limit: Limit
    placed: tuple[Placed, ...]
    refused: Refused | None
    """What stopped the next copy"""

    @property
    def fits(self) -> bool:
        """Whether all that was asked for would fit, and all that is lost elsewhere."""
        enough = self.limit is Limit.NOTHING or self.copies >= (self.asked or 1)
        return enough and not any(isinstance(one.elsewhere, Refused) for one in self.lost)
