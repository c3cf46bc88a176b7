"""Decisions about claims and pods: allocated, pending, freed, handed to kube-scheduler, taken back by it."""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from reconciler.control.decisions.decision import Decision
from reconciler.control.decisions.declaration import Counted, Level, Line, Logged
from reconciler.control.decisions.fields import (
    ClaimKey,
    ClaimKeys,
    Counts,
    Devices,
    MaybeGang,
    MaybePodKey,
    MaybePodKeys,
    Message,
    Node,
    NodeCount,
    PendingSeconds,
    PodKey,
    Policy,
    Seconds,
    Steps,
)
from reconciler.control.decisions.metric import COARSE, WAITS, MetricSpec

ALLOCATION = MetricSpec(
    "allocation_duration_seconds",
    "histogram",
    "Time from the start of a decision until the API server has stored the allocation of a claim. "
    "Exemplars name the decision.",
    buckets=COARSE,
)

PENDING_TIME = MetricSpec(
    "claim_pending_duration_seconds",
    "histogram",
    "Time from the creation of a claim until the API server has stored its allocation. The server rounds "
    "creation times down to seconds. Exemplars name the decision.",
    buckets=WAITS,
)

FREED = MetricSpec("claims_freed_total", "counter", "Claims whose devices were freed.")

UNGATED = MetricSpec(
    "pods_ungated_total", "counter", "Pods whose claims are all allocated, handed to the scheduler."
)

RECLAIMED = MetricSpec(
    "allocations_reclaimed_total",
    "counter",
    "Allocations of ours that kube-scheduler removed, to schedule the pod again.",
)


@dataclass(frozen=True, slots=True)
class Allocated(Decision):
    """A claim is allocated, and the API server has stored the allocation."""

    LINES: ClassVar = (Line("claim allocated", Level.INFO),)
    METRICS: ClassVar = (Counted(ALLOCATION, observed="seconds"), Counted(PENDING_TIME, observed="pending"))

    claim: ClaimKey
    pod: MaybePodKey
    """The pod that it was decided for, if any"""
    devices: Devices
    node: Node
    seconds: Seconds
    steps: Steps
    pending: PendingSeconds = field(default=None, compare=False)
    """By the time of day. None if the claim has no creation time"""
    policy: Policy = None


@dataclass(frozen=True, slots=True)
class Waits(Decision):
    """Claims are pending. Reported again when the reason changes.

    No metric here: every refusal is counted, also repeated ones for the same reason, when it is decided.
    """

    LINES: ClassVar = (Line("claim pending", Level.INFO),)

    claims: ClaimKeys
    pod: MaybePodKey
    reason: Annotated[str, Logged("a word of docs/reasons.md")]
    message: Message
    nodes: NodeCount = 0
    steps: Steps = 0
    counts: Counts = ()
    gang: MaybeGang = None
    """The gang that they were decided for, if any"""
    pods: MaybePodKeys = None
    """Its gated pods"""


@dataclass(frozen=True, slots=True)
class Freed(Decision):
    """A claim released its devices."""

    LINES: ClassVar = (Line("claim freed", Level.INFO),)
    METRICS: ClassVar = (Counted(FREED),)

    claim: ClaimKey
    why: Annotated[str, Logged("why it was freed")]


@dataclass(frozen=True, slots=True)
class Ungated(Decision):
    """All claims of a pod are allocated; the scheduler may bind the pod."""

    LINES: ClassVar = (Line("pod ungated", Level.INFO),)
    METRICS: ClassVar = (Counted(UNGATED),)

    pod: PodKey


@dataclass(frozen=True, slots=True)
class DevicesGiven(Decision):
    """A pod has Koordinator's devices, and the API server has stored its annotation."""

    LINES: ClassVar = (Line("devices allocated to pod", Level.INFO),)
    METRICS: ClassVar = (Counted(ALLOCATION, observed="seconds"),)

    pod: PodKey
    devices: Devices
    """Type, node and minor"""
    node: Node
    seconds: Seconds


@dataclass(frozen=True, slots=True)
class Reclaimed(Decision):
    """kube-scheduler removed an allocation of ours and schedules the pod again."""

    LINES: ClassVar = (Line("allocation removed by kube-scheduler", Level.WARNING),)
    METRICS: ClassVar = (Counted(RECLAIMED),)

    claim: ClaimKey
    pod: PodKey
    node: Node
    """The node of the devices; empty if they allow several"""
    devices: Devices
    message: Message
    """Known reasons against that node"""
    gang: MaybeGang = None
    """The gang of the pod, if it has one"""
