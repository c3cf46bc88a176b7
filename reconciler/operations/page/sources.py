"""What the page is told by the rest of the process, as functions: none of them waits."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from reconciler.allocation.koordinator.fleet import Fleet
from reconciler.allocation.reasons.explanation import Explanation
from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.operations.metrics.capacity import Capacity
from reconciler.state.devices.snapshot.snapshot import Snapshot


class Fact(NamedTuple):
    """One line about the process, for the top of the page."""

    name: str
    value: str
    grave: bool = False
    """Whether somebody should look at it"""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A claim, or the claims of a pod, that were told no."""

    kind: str
    """claim or pod: after which of them the question is named"""
    key: ObjectKey
    claims: tuple[ObjectKey, ...]
    reason: str
    message: str
    """As it was told when this became the reason"""
    remedy: str


class Question(NamedTuple):
    """Why a claim, or a pod with its claims, waits."""

    kind: str
    key: ObjectKey


@dataclass(frozen=True, slots=True)
class Sources:
    """Where everything on the page comes from."""

    ready: Callable[[], bool]
    """Whether all objects were listed once; before that nothing below is asked"""
    now: Callable[[], datetime]
    clock: Callable[[], float]
    """Seconds"""
    facts: Callable[[], Sequence[Fact]]
    picture: Callable[[], Snapshot]
    capacity: Capacity
    claims: Callable[[], Iterable[ObjectKey]]
    """All there are"""
    devices_of: Callable[[ObjectKey], Sequence[DeviceID]]
    """What a claim holds, decided but unwritten plans included; nothing for claims that are not there"""
    waiting: Callable[[], Iterable[Waiting]]
    """Who waits longest comes first"""
    by_reason: Callable[[], Mapping[str, int]]
    """How many claims wait, by reason"""
    news: Callable[[], Hashable]
    """Another value whenever who waits, or for what, may have changed"""
    fleet: Callable[[], Fleet | None]
    """Koordinator's devices, to be read at once and not kept; None where they are not served"""
    explain: Callable[[Question], Explanation | None]
    """None where no device is in question. Costs some milliseconds"""
