"""What was decided, for logs and for whoever watches the reconciler at work."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from reconciler.objects.meta import DeviceID, ObjectKey, PoolID
from reconciler.objects.plan import RequestCount


@dataclass(frozen=True, slots=True, kw_only=True)
class _Numbered:
    decision_id: str = field(default="", compare=False)
    """Ties log line, Event, metric and journal of one decision together; allocations that were decided
    together share it. Empty until it is announced, where whoever told it knew none."""


@dataclass(frozen=True, slots=True)
class Allocated(_Numbered):
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
class Waits(_Numbered):
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
class Freed(_Numbered):
    """A claim let go of what it held; `why` says for what reason."""

    claim: ObjectKey
    why: str


@dataclass(frozen=True, slots=True)
class Ungated(_Numbered):
    """All claims of a pod are allocated: it is the scheduler's turn."""

    pod: ObjectKey


@dataclass(frozen=True, slots=True)
class HeldTwice(_Numbered):
    """Not decided by us alone: claims that hold one device, of which at least one holds it alone."""

    device: DeviceID
    claims: tuple[ObjectKey, ...]


@dataclass(frozen=True, slots=True)
class AtOdds(_Numbered):
    """Not decided: something about devices that exclude one another for somebody to look at."""

    message: str


@dataclass(frozen=True, slots=True)
class Equipped(_Numbered):
    """A pod holds devices that its annotation records, is tied to their node, and the server knows."""

    pod: ObjectKey
    node: str
    devices: tuple[DeviceID, ...]
    """Type, node and minor"""
    seconds: float
    """From the begin of the turn to the answer of the server"""


@dataclass(frozen=True, slots=True)
class Overdrawn(_Numbered):
    """Not decided by us alone: a device of which pods hold more than there is, by their annotations."""

    device: DeviceID
    """Type, node and minor"""
    pods: tuple[ObjectKey, ...]


@dataclass(frozen=True, slots=True)
class OverCommitted(_Numbered):
    """Not decided by us alone: more is drawn from a counter set than it publishes."""

    pool: PoolID
    counter_set: str
    short: tuple[tuple[str, str], ...]
    """Counter, and how much of it is missing"""
    claims: tuple[ObjectKey, ...]


@dataclass(frozen=True, slots=True)
class CommitmentMet(_Numbered):
    """A counter set that was over-committed is so no more, or is gone."""

    pool: PoolID
    counter_set: str


@dataclass(frozen=True, slots=True)
class Uncharged(_Numbered):
    """A held device drew from counters that its pool does not have any more: nobody is charged for them."""

    device: DeviceID
    counter_set: str
    counters: tuple[str, ...]
    claims: tuple[ObjectKey, ...]


@dataclass(frozen=True, slots=True)
class TakenBack(_Numbered):
    """kube-scheduler took back what we allocated for a pod, and decides afresh."""

    claim: ObjectKey
    pod: ObjectKey
    node: str
    """Where the devices were; empty if that left a choice"""
    devices: tuple[DeviceID, ...]
    message: str
    """What we know to stand against that node"""


class Outcome(StrEnum):
    """How what we would have decided compares with what was decided by others."""

    AGREES = "agrees"
    OTHER_DEVICES = "other devices"
    OTHER_NODE = "other node"
    WE_REFUSE = "we refuse"
    THEY_WAIT = "they wait"


@dataclass(frozen=True, slots=True)
class Compared(_Numbered):
    """Shadow mode: what somebody allocated, or does not, beside what we would have."""

    claims: tuple[ObjectKey, ...]
    """One that was allocated; all that a pod waits for"""
    pod: ObjectKey | None
    outcome: Outcome
    node: str = ""
    devices: tuple[DeviceID, ...] = ()
    their_node: str = ""
    """Empty where their devices leave a choice"""
    their_devices: tuple[DeviceID, ...] = ()
    there: Outcome | None = None
    """How we compare on their node, where ours would have been another"""
    message: str = ""
    """Why we refuse"""


@dataclass(frozen=True, slots=True)
class WritesPaused(_Numbered):
    """From now on nothing is written. Told again for another reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class HeldBack(_Numbered):
    """A claim, or a pod with its claims, would have been written to, but for the pause. Told once a pause."""

    claim: ObjectKey | None
    pod: ObjectKey | None


@dataclass(frozen=True, slots=True)
class WritesResumed(_Numbered):
    """Writes go on."""

    held: int
    """Units that would have written something meanwhile"""


Decision = (
    Allocated
    | Waits
    | Freed
    | Ungated
    | HeldTwice
    | AtOdds
    | Equipped
    | Overdrawn
    | OverCommitted
    | CommitmentMet
    | Uncharged
    | TakenBack
    | Compared
    | WritesPaused
    | HeldBack
    | WritesResumed
)
Tell = Callable[[Decision], None]

Answered = Callable[[str, float, str], None]
"""Hears of every answer to a question about devices, those that change nothing included: the reason of a
refusal or an empty text, the seconds it took, and the name of the decision."""
