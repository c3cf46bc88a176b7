"""Decisions, one class per kind. A class declares its log line and its metrics: see `declaration`."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Annotated, ClassVar, get_args

from reconciler.api.objects.meta import DeviceID
from reconciler.control.decisions.declaration import Counted, Level, Line, Logged, LoggedField
from reconciler.control.decisions.fields import (
    ClaimKey,
    ClaimKeys,
    CounterSet,
    Counts,
    Device,
    Devices,
    MaybeClaimKey,
    MaybePodKey,
    Message,
    Node,
    NodeCount,
    PodKey,
    PodKeys,
    Pool,
    Seconds,
    Steps,
    texts,
)
from reconciler.control.decisions.metric import COARSE, MetricSpec

ALLOCATION = MetricSpec(
    "allocation_duration_seconds",
    "histogram",
    "Time from the start of a decision until the API server has stored the allocation of a claim. "
    "Exemplars hold the decision_id.",
    buckets=COARSE,
)
FREED = MetricSpec("claims_freed_total", "counter", "Claims that released their devices.")
UNGATED = MetricSpec(
    "pods_ungated_total", "counter", "Pods released to the scheduler because all their claims are allocated."
)
FINDINGS = MetricSpec(
    "audit_findings_total",
    "counter",
    "Findings of the audit of held devices; each finding counts once.",
    (("finding", "kind of finding"),),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A decision, or a finding of the audit."""

    LINES: ClassVar[tuple[Line, ...]]
    """Its log line. Where there are several, `line` chooses."""
    METRICS: ClassVar[tuple[Counted, ...]] = ()

    decision_id: Annotated[
        str, Logged("id of the decision in log lines, Events, metric exemplars and the journal")
    ] = field(default="", compare=False)
    """Shared by the allocations of one decision. Empty until the decision is reported, unless the decider set
    it."""

    @property
    def line(self) -> Line:
        """The log line of this decision."""
        return self.LINES[0]

    @classmethod
    def logged_fields(cls) -> Iterator[LoggedField]:
        """The fields in the order of the log line: those of the class, then those of every decision."""
        for one in sorted(fields(cls), key=lambda one: one.kw_only is True):
            _, logged = get_args(one.type)
            yield LoggedField(one.name, logged.name or one.name, logged)

    @classmethod
    def meaning(cls) -> str:
        """The meaning of the decision: the first paragraph of the docstring."""
        return " ".join((cls.__doc__ or "").partition("\n\n")[0].split())


@dataclass(frozen=True, slots=True)
class Allocated(Decision):
    """The API server has stored the allocation of a claim."""

    LINES: ClassVar = (Line("claim allocated", Level.INFO),)
    METRICS: ClassVar = (Counted(ALLOCATION, observed="seconds"),)

    claim: ClaimKey
    pod: MaybePodKey
    """The pod that the claim was allocated for, if any"""
    devices: Devices
    node: Node
    seconds: Seconds
    steps: Steps


@dataclass(frozen=True, slots=True)
class Waits(Decision):
    """Claims cannot be allocated now. Logged again when the reason changes.

    It has no metric: every refusal is counted when it is decided, also a repeated one.
    """

    LINES: ClassVar = (Line("claim pending", Level.INFO),)

    claims: ClaimKeys
    pod: MaybePodKey
    reason: Annotated[str, Logged("a reason of docs/reasons.md")]
    message: Message
    nodes: NodeCount = 0
    steps: Steps = 0
    counts: Counts = ()


@dataclass(frozen=True, slots=True)
class Freed(Decision):
    """A claim released its devices."""

    LINES: ClassVar = (Line("claim freed", Level.INFO),)
    METRICS: ClassVar = (Counted(FREED),)

    claim: ClaimKey
    why: Annotated[str, Logged("cause")]


@dataclass(frozen=True, slots=True)
class Ungated(Decision):
    """All claims of a pod are allocated; the scheduler may bind the pod."""

    LINES: ClassVar = (Line("pod ungated", Level.INFO),)
    METRICS: ClassVar = (Counted(UNGATED),)

    pod: PodKey


@dataclass(frozen=True, slots=True)
class Equipped(Decision):
    """The API server has stored a pod's annotation with its Koordinator devices."""

    LINES: ClassVar = (Line("devices allocated to pod", Level.INFO),)
    METRICS: ClassVar = (Counted(ALLOCATION, observed="seconds"),)

    pod: PodKey
    devices: Devices
    """Type, node and minor"""
    node: Node
    seconds: Seconds


@dataclass(frozen=True, slots=True)
class HeldTwice(Decision):
    """Two claims hold a device that only one claim can hold.

    Not caused by our decisions alone.
    """

    LINES: ClassVar = (Line("device held twice", Level.WARNING),)
    METRICS: ClassVar = (Counted(FINDINGS, ("held_twice",)),)

    device: Device
    claims: ClaimKeys


@dataclass(frozen=True, slots=True)
class Overdrawn(Decision):
    """By their annotations, pods hold more of a Koordinator device than it has.

    Not caused by our decisions alone.
    """

    LINES: ClassVar = (Line("device over-committed", Level.WARNING),)
    METRICS: ClassVar = (Counted(FINDINGS, ("overdrawn",)),)

    device: Device
    """Type, node and minor"""
    pods: PodKeys


@dataclass(frozen=True, slots=True)
class AtOdds(Decision):
    """Mutually exclusive devices are held at the same time."""

    LINES: ClassVar = (Line("exclusive devices held together", Level.WARNING),)
    METRICS: ClassVar = (Counted(FINDINGS, ("at_odds",)),)

    message: Message


@dataclass(frozen=True, slots=True)
class OverCommitted(Decision):
    """Held devices draw more from a counter set than it publishes.

    Not caused by our decisions alone.
    """

    LINES: ClassVar = (Line("counters over-committed", Level.WARNING),)
    METRICS: ClassVar = (Counted(FINDINGS, ("over_committed",)),)

    pool: Pool
    counter_set: CounterSet
    short: Annotated[tuple[tuple[str, str], ...], Logged("counter -> missing amount", dict, write=dict)]
    claims: ClaimKeys


@dataclass(frozen=True, slots=True)
class CommitmentMet(Decision):
    """A counter set is no longer over-committed, or is gone."""

    LINES: ClassVar = (Line("counters no longer over-committed", Level.INFO),)

    pool: Pool
    counter_set: CounterSet


@dataclass(frozen=True, slots=True)
class Uncharged(Decision):
    """A held device draws from counters that its pool no longer publishes. They are not charged."""

    LINES: ClassVar = (Line("counters of held device no longer published", Level.WARNING),)
    METRICS: ClassVar = (Counted(FINDINGS, ("uncharged",)),)

    device: Device
    counter_set: CounterSet
    counters: Annotated[tuple[str, ...], Logged("counters of the set", list, write=list)]
    claims: ClaimKeys


@dataclass(frozen=True, slots=True)
class TakenBack(Decision):
    """kube-scheduler removed an allocation of ours and schedules the pod again."""

    LINES: ClassVar = (Line("allocation removed by kube-scheduler", Level.WARNING),)

    claim: ClaimKey
    pod: PodKey
    node: Node
    """Node of the devices; empty if they were available on several nodes"""
    devices: Devices
    message: Message
    """Known problem of that node"""


class Outcome(StrEnum):
    """How our decision compares with the decision of another scheduler."""

    AGREES = "agrees"
    OTHER_DEVICES = "other devices"
    OTHER_NODE = "other node"
    WE_REFUSE = "we refuse"
    THEY_WAIT = "they wait"


def _text_or_null(outcome: Outcome | None) -> str | None:
    return None if outcome is None else str(outcome)


@dataclass(frozen=True, slots=True)
class Compared(Decision):
    """Shadow mode: our decision compared with the one of another scheduler."""

    LINES: ClassVar = (
        Line("shadow agrees", Level.INFO, "Shadow mode: our decision would be the same."),
        Line("shadow differs", Level.INFO, "Shadow mode: our decision would differ."),
    )

    outcome: Annotated[Outcome, Logged(", ".join(Outcome), write=str)]
    claims: ClaimKeys
    """The allocated claim, or all pending claims of a pod"""
    pod: MaybePodKey
    node: Node = ""
    devices: Devices = ()
    their_node: Annotated[
        str,
        Logged("node of the other scheduler; empty if its devices are available on several nodes"),
    ] = ""
    their_devices: Annotated[tuple[DeviceID, ...], Logged("devices of the other scheduler", list, texts)] = ()
    there: Annotated[
        Outcome | None,
        Logged(
            "outcome on their node, if ours would be another",
            (str, type(None)),
            _text_or_null,
        ),
    ] = None
    message: Message = ""
    """Why we refuse"""

    @property
    def line(self) -> Line:
        """By the outcome."""
        agrees, differs = self.LINES
        return agrees if self.outcome is Outcome.AGREES else differs


@dataclass(frozen=True, slots=True)
class WritesPaused(Decision):
    """Writes stop. Logged again when the reason changes."""

    LINES: ClassVar = (Line("writes paused", Level.WARNING),)

    reason: Annotated[str, Logged("why writes are paused")]


@dataclass(frozen=True, slots=True)
class HeldBack(Decision):
    """A claim, or a pod with its claims, is not written because writes are paused. Logged once per object."""

    LINES: ClassVar = (Line("write skipped while paused", Level.INFO),)

    claim: MaybeClaimKey
    pod: MaybePodKey


@dataclass(frozen=True, slots=True)
class WritesResumed(Decision):
    """Writes continue."""

    LINES: ClassVar = (Line("writes resumed", Level.INFO),)

    held: Annotated[int, Logged("number of claims and pods whose writes were skipped", int)]


DECISIONS = tuple(
    kind
    for kind in list(vars().values())
    if isinstance(kind, type) and issubclass(kind, Decision) and kind is not Decision
)
"""Every kind of decision, in the order of this file"""

Tell = Callable[[Decision], None]

Answered = Callable[[str, float, str], None]
"""Called for every answer to a question about devices, also if it changes nothing: the reason of a refusal or
an empty text, the seconds it took, and the id of the decision."""
