"""What was decided, for logs and for whoever watches the reconciler at work."""

from collections.abc import Callable
from dataclasses import dataclass

from reconciler.objects.meta import DeviceID, ObjectKey
from reconciler.objects.plan import RequestCount


@dataclass(frozen=True, slots=True)
class Allocated:
    """A claim holds devices, and the server knows."""

    claim: ObjectKey
    pod: ObjectKey | None
    """For which pod it was decided, if for any"""
    node: str
    devices: tuple[DeviceID, ...]
    seconds: float
    """From the begin of the turn to the answer of the server"""
    steps: int
    """Devices tried"""


@dataclass(frozen=True, slots=True)
class Waits:
    """Claims that cannot be met now. Told when the reason is another than last time."""

    claims: tuple[ObjectKey, ...]
    pod: ObjectKey | None
    reason: str
    message: str
    nodes: int = 0
    """Nodes considered"""
    steps: int = 0
    counts: tuple[RequestCount, ...] = ()


@dataclass(frozen=True, slots=True)
class Freed:
    """A claim let go of what it held; `why` says for what reason."""

    claim: ObjectKey
    why: str


@dataclass(frozen=True, slots=True)
class Ungated:
    """All claims of a pod are allocated: it is the scheduler's turn."""

    pod: ObjectKey


@dataclass(frozen=True, slots=True)
class HeldTwice:
    """Not decided by us alone: claims that hold one device, of which at least one holds it alone."""

    device: DeviceID
    claims: tuple[ObjectKey, ...]


@dataclass(frozen=True, slots=True)
class AtOdds:
    """Not decided: something about devices that exclude one another for somebody to look at."""

    message: str


Decision = Allocated | Waits | Freed | Ungated | HeldTwice | AtOdds
Tell = Callable[[Decision], None]
