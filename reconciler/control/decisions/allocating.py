"""The decisions about claims: allocated, pending, freed, compared; and what audits find."""

from dataclasses import field
from enum import StrEnum
from typing import Annotated, ClassVar

from reconciler.api.objects.meta import DeviceID
from reconciler.control.decisions import fields
from reconciler.control.decisions.declaration import (
    COARSE,
    WAITS,
    Counted,
    Decision,
    Level,
    Line,
    Logged,
    metric,
)

ALLOCATION = metric(
    "allocation_duration_seconds",
    "Time from the start of a decision until its allocation is stored.",
    buckets=COARSE,
)

PENDING_TIME = metric(
    "claim_pending_duration_seconds",
    "Time from the creation of a claim, in whole seconds, until its allocation is stored.",
    buckets=WAITS,
)

FREED = metric("claims_freed_total", "Claims whose devices were freed.")

UNGATED = metric("pods_ungated_total", "Pods whose claims are all allocated, handed to the scheduler.")

RECLAIMED = metric(
    "allocations_reclaimed_total",
    "Allocations of ours that kube-scheduler removed, to schedule the pod again.",
)


class Allocated(
    Decision,
    info="claim allocated",
    counted=(Counted(ALLOCATION, observed="seconds"), Counted(PENDING_TIME, observed="pending")),
):
    """A claim is allocated, and the API server has stored the allocation."""

    claim: fields.ClaimKey
    pod: fields.MaybePodKey
    """The pod that it was decided for, if any"""
    devices: fields.Devices
    node: fields.Node
    seconds: fields.Seconds
    steps: fields.Steps
    pending: fields.PendingSeconds = field(default=None, compare=False)
    """By the time of day. None if the claim has no creation time"""
    policy: fields.Policy = None


class Waits(Decision, info="claim pending"):
    """Claims are pending. Reported again when the reason changes.

    No metric here: every refusal is counted, also repeated ones for the same reason, when it is decided.
    """

    claims: fields.ClaimKeys
    pod: fields.MaybePodKey
    reason: Annotated[str, Logged("a word of docs/reasons.md")]
    message: fields.Message
    nodes: fields.NodeCount = 0
    steps: fields.Steps = 0
    counts: fields.Counts = ()
    gang: fields.MaybeGang = None
    """The gang that they were decided for, if any"""
    pods: fields.MaybePodKeys = None
    """Its gated pods"""


class Freed(Decision, info="claim freed", counted=Counted(FREED)):
    """A claim released its devices."""

    claim: fields.ClaimKey
    why: Annotated[str, Logged("the cause")]


class Deallocated(Decision, info="claim deallocated"):
    """Another client removed our allocation, as kube-controller-manager does when the pods have ended."""

    claim: fields.ClaimKey
    devices: fields.Devices
    """What it held"""


class Deleted(Decision, info="claim deleted"):
    """A claim of ours was deleted."""

    claim: fields.ClaimKey
    devices: fields.Devices
    """What it held"""


class Ungated(Decision, info="pod ungated", counted=Counted(UNGATED)):
    """All claims of a pod are allocated, and its gate is removed."""

    pod: fields.PodKey
    claims: fields.ClaimKeys = ()


class AllocatedByScheduler(Decision, info="claim allocated by kube-scheduler"):
    """kube-scheduler made and allocated the claim for the extended resources of a pod."""

    claim: fields.ClaimKey
    pod: fields.PodKey
    devices: fields.Devices
    decided: Annotated[
        tuple[DeviceID, ...],
        Logged("those that were decided; kube-scheduler may choose others", list, fields.texts),
    ]


class DevicesGiven(
    Decision, info="devices allocated to pod", counted=Counted(ALLOCATION, observed="seconds")
):
    """A pod has Koordinator's devices, as stored by the API server."""

    pod: fields.PodKey
    devices: fields.Devices
    """Type, node and minor"""
    node: fields.Node
    seconds: fields.Seconds


class Reclaimed(Decision, warning="allocation removed by kube-scheduler", counted=Counted(RECLAIMED)):
    """kube-scheduler removed an allocation of ours."""

    claim: fields.ClaimKey
    pod: fields.PodKey
    node: fields.Node
    """The node of the devices; empty if they allow several"""
    devices: fields.Devices
    message: fields.Message
    """Known reasons against that node"""
    gang: fields.MaybeGang = None
    """The gang of the pod, if it has one"""


class Outcome(StrEnum):
    """How our decision compares with that of another allocator."""

    AGREES = "agrees"
    OTHER_DEVICES = "other devices"
    OTHER_NODE = "other node"
    WE_REFUSE = "we refuse"
    THEY_WAIT = "they wait"


def _text_or_null(outcome: Outcome | None) -> str | None:
    return None if outcome is None else str(outcome)


class Compared(Decision):
    """Shadow mode: an allocation by another allocator, or a pending claim, compared with our decision."""

    LINES: ClassVar = (
        Line("shadow agrees", Level.INFO, "Shadow mode: our decision is the same."),
        Line("shadow differs", Level.INFO, "Shadow mode: our decision is different."),
    )

    outcome: Annotated[Outcome, Logged(", ".join(Outcome), write=str)]
    claims: fields.ClaimKeys
    """The allocated claim, or all pending claims of a pod"""
    pod: fields.MaybePodKey
    node: fields.Node = ""
    devices: fields.Devices = ()
    their_node: Annotated[str, Logged("node of the other scheduler, if only one")] = ""
    their_devices: Annotated[tuple[DeviceID, ...], Logged("as the name says", list, fields.texts)] = ()
    there: Annotated[
        Outcome | None, Logged("the outcome on their node, if ours differs", (str, type(None)), _text_or_null)
    ] = None
    message: fields.Message = ""
    """The reason of our refusal"""

    @property
    def line(self) -> Line:
        """The line for the outcome."""
        agrees, differs = self.LINES
        return agrees if self.outcome is Outcome.AGREES else differs


FINDINGS = metric(
    "audit_findings_total",
    "Findings of the audit of allocated devices, each counted once.",
    finding="what was found",
)


def _found(what: str) -> Counted:
    return Counted(FINDINGS, (what,))


class HeldTwice(Decision, warning="device held twice", counted=_found("held_twice")):
    """Two claims hold a device that only one can hold.

    Another writer took part: this process alone never does it.
    """

    device: fields.Device
    claims: fields.ClaimKeys


class Overdrawn(Decision, warning="device over-committed", counted=_found("overdrawn")):
    """Pods hold more of a Koordinator device than it has.

    Another writer took part: this process alone never does it.
    """

    device: fields.Device
    """Type, node and minor"""
    pods: fields.PodKeys


class AllocationUnreadable(Decision, warning="device allocation unreadable", counted=_found("unreadable")):
    """A pod's annotation does not say which Koordinator devices it has.

    All devices of its types on its node count as held until it can be read or the pod is gone.
    """

    pod: fields.PodKey
    node: fields.Node
    message: fields.Message


class ExclusionViolated(Decision, counted=_found("at_odds")):
    """Devices that exclude one another are allocated at the same time.

    Also a `compatibleOnlyWith` expression that fails; then no claims are named.
    """

    LINES: ClassVar = (
        Line("exclusive devices held together", Level.WARNING),
        Line("compatibleOnlyWith failed", Level.WARNING, "An expression does not compile, or fails."),
    )

    message: fields.Message
    claims: fields.ClaimKeys = ()

    @property
    def line(self) -> Line:
        """The line for devices that are held, or for an expression."""
        together, failed = self.LINES
        return together if self.claims else failed


class GroupModeChanged(Decision, warning="group mode changed"):
    """The groups of a driver are compared in another mode from now on.

    Its devices now say `compatibleOnlyWith`, or no longer do. Held devices stay held.
    """

    driver: Annotated[str, Logged("as the name says")]
    before: Annotated[str, Logged("how many fit; the group mode")]
    after: Annotated[str, Logged("how many fit; the group mode")]
    held: Annotated[int, Logged("devices of the driver that are held", int)]


class OverCommitted(Decision, warning="counters over-committed", counted=_found("over_committed")):
    """Devices consume more of a counter set than it publishes.

    The slice was edited, or another writer took part.
    """

    pool: fields.Pool
    counter_set: fields.CounterSet
    short: Annotated[tuple[tuple[str, str], ...], Logged("counter -> missing amount", dict, write=dict)]
    claims: fields.ClaimKeys


class NoLongerOverCommitted(Decision, info="counters no longer over-committed"):
    """A counter set is no longer over-committed, or is gone."""

    pool: fields.Pool
    counter_set: fields.CounterSet


class Uncharged(Decision, warning="counters of held device no longer published", counted=_found("uncharged")):
    """A held device consumes counters that its pool no longer publishes."""

    device: fields.Device
    counter_set: fields.CounterSet
    counters: Annotated[tuple[str, ...], Logged("as the name says", list, write=list)]
    claims: fields.ClaimKeys


class WritesPaused(Decision, warning="writes paused"):
    """Writes are paused. Reported again when the reason changes."""

    reason: Annotated[str, Logged("why writes are paused")]


class HeldBack(Decision, info="write skipped while paused"):
    """The pause holds back a write.

    Reported once for each.
    """

    claim: fields.MaybeClaimKey
    pod: fields.MaybePodKey
    gang: fields.MaybeGang = None


class WritesResumed(Decision, info="writes resumed"):
    """Writes are enabled again."""

    held: Annotated[int, Logged("claims and pods whose writes were held back", int)]
