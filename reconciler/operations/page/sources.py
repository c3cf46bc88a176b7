"""The data of the page, as functions of other parts of the process. None of them waits."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from msgspec import Struct

from reconciler.allocation.reasons.explanation import Explanation
from reconciler.api.objects.gangs import GangKey
from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.control.gangs.planner import GangLine
from reconciler.control.relocation.moves import MovesAdvice
from reconciler.operations.metrics.capacity import Capacity
from reconciler.plugins.koordinator.fleet import Fleet
from reconciler.state.devices.snapshot import Snapshot


class Fact(NamedTuple):
    """A line about the process in the header of the page."""

    name: str
    value: str
    alert: bool = False
    """Whether an operator should look at it"""


class PendingUnit(NamedTuple):
    """A claim, or the claims of a pod, that cannot be allocated now."""

    kind: str
    """claim or pod: the kind of `key`"""
    key: ObjectKey
    claims: tuple[ObjectKey, ...]
    reason: str
    message: str
    """Message of the refusal when the reason last changed"""


class GangEntry(NamedTuple):
    """A gang, and why it is pending; both empty if it is not."""

    line: GangLine
    reason: str
    message: str


class Question(NamedTuple):
    """Asks why a claim, or a pod with its claims, is pending."""

    kind: str
    key: ObjectKey


class PolicyRow(NamedTuple):
    """What a placement policy would have done in the sampled decisions."""

    name: str
    used: bool
    """Whether claims are decided by it"""
    same: int
    other_devices: int
    other_node: int
    lost: float
    """Places of the demand that its choice costs, the mean of all samples"""


class PlacementView(NamedTuple):
    """The demand in use, and the standing comparison of placement policies."""

    samples: int
    policies: tuple[PolicyRow, ...]
    demand: tuple[tuple[str, float], ...]
    """The most frequent shapes in words, and their parts of all claims"""
    more: int
    """Further shapes"""


class Sources(Struct, frozen=True):
    """All data of the page."""

    ready: Callable[[], bool]
    """Whether all objects were listed; before that, no function below is called"""
    now: Callable[[], datetime]
    clock: Callable[[], float]
    """Seconds"""
    facts: Callable[[], Sequence[Fact]]
    snapshot: Callable[[], Snapshot]
    capacity: Capacity
    claims: Callable[[], Iterable[ObjectKey]]
    """All claims"""
    devices_of: Callable[[ObjectKey], Sequence[DeviceID]]
    """Devices of a claim, also of decided plans that are not written yet; empty for unknown claims"""
    pending: Callable[[], Iterable[PendingUnit]]
    """Pending claims and pods, oldest first"""
    created: Callable[[str, ObjectKey], str]
    """When a claim or pod was created, as the API writes it; empty if it is not known"""
    by_reason: Callable[[], Mapping[str, int]]
    """Reason -> pending claims"""
    pending_version: Callable[[], Hashable]
    """Changes whenever the pending claims or their reasons may have changed"""
    fleet: Callable[[], Fleet | None]
    """Koordinator's devices, to read at once and not to keep; None if they are not served"""
    placement: Callable[[], PlacementView | None]
    """None if first fit decides all claims"""
    moves: Callable[[], Sequence[MovesAdvice]]
    """Which pods to move, for each goal; empty if there is no advice"""
    explain: Callable[[Question], Explanation | None]
    """Takes some milliseconds. None if there is nothing to decide"""
    gangs: Callable[[], tuple[Sequence[GangKey], Sequence[GangKey]]]
    """The gangs with gated pods, and the others"""
    gang: Callable[[GangKey], GangEntry | None]
    """None if it is no gang"""
    gangs_version: Callable[[], Hashable]
    """Changes whenever a pod of a gang has changed"""
