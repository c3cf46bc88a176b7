"""One class for each kind of decision. It declares what operators see of it; see `declaration`."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Annotated, ClassVar, get_args

from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.control.decisions.declaration import Counted, Level, Line, Logged, LoggedField
from reconciler.control.decisions.fields import (
    ClaimKey,
    ClaimKeys,
    CountedThing,
    CounterSet,
    Counts,
    Device,
    Devices,
    Gang,
    Goal,
    MaybeClaimKey,
    MaybeGang,
    MaybePodKey,
    MaybePodKeys,
    Message,
    Node,
    NodeCount,
    Nominee,
    PendingSeconds,
    PodKey,
    PodKeys,
    Policy,
    Pool,
    Seconds,
    Steps,
    Uid,
    texts,
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
GANGS = MetricSpec(
    "gangs_placed_total", "counter", "Gangs of which enough pods got nodes and devices together."
)
GANGS_GIVEN_BACK = MetricSpec(
    "gangs_given_back_total",
    "counter",
    "Gangs that were only partly written, and gave everything back.",
)
RECLAIMED = MetricSpec(
    "allocations_reclaimed_total",
    "counter",
    "Allocations of ours that kube-scheduler removed, to schedule the pod again.",
)
NOMINATIONS = MetricSpec(
    "nominations_total", "counter", "Nominations: room that was held for a claim, a pod or a gang."
)
NOMINATIONS_ENDED = MetricSpec(
    "nominations_ended_total",
    "counter",
    "Nominations that ended.",
    (("result", "`used`, `expired` or `dropped`"),),
)
ROOM_PLANS = MetricSpec(
    "room_plans_total",
    "counter",
    "New plans to evict pods so that a pending pod or gang fits, carried out or not.",
)
ROOM_PLANS_ABORTED = MetricSpec(
    "room_plans_aborted_total",
    "counter",
    "Plans to evict pods that were aborted, mostly because something had changed.",
)
EVICTIONS = MetricSpec(
    "evictions_total",
    "counter",
    "Pods that were evicted.",
    (("purpose", "`preemption`: so that a pending pod or gang fits; `rebalancing`: to move the pod"),),
)
MOVE_PLANS = MetricSpec(
    "move_plans_total", "counter", "New plans to move pods so that more fits, carried out or not."
)
MOVE_PLANS_ABORTED = MetricSpec(
    "move_plans_aborted_total",
    "counter",
    "Plans to move pods that were aborted, mostly because something had changed.",
)
PODS_MOVED = MetricSpec(
    "pods_moved_total", "counter", "Pods that were evicted and run again at the place that was held for them."
)
FINDINGS = MetricSpec(
    "audit_findings_total",
    "counter",
    "Findings of the audit of allocated devices, each counted once.",
    (("finding", "what was found"),),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A decision, or a finding."""

    LINES: ClassVar[tuple[Line, ...]]
    """Its log line. Where there are several, `line` chooses."""
    METRICS: ClassVar[tuple[Counted, ...]] = ()

    decision_id: Annotated[
        str, Logged("names one decision in log lines, Events, metric exemplars and the journal")
    ] = field(default="", compare=False)
    """Allocations that were decided together share it. Empty until the decision is reported, unless the
    handler sets it."""

    @property
    def line(self) -> Line:
        """The log line of this decision."""
        return self.LINES[0]

    @classmethod
    def logged_fields(cls) -> Iterator[LoggedField]:
        """The fields in the order of the log line: its own, then those of every decision."""
        for one in sorted(fields(cls), key=lambda one: one.kw_only is True):
            _, logged = get_args(one.type)
            yield LoggedField(one.name, logged.name or one.name, logged)

    @classmethod
    def meaning(cls) -> str:
        """What happened, in a sentence or two: the first paragraph of the docstring."""
        return " ".join((cls.__doc__ or "").partition("\n\n")[0].split())


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
class Nominated(Decision):
    """Room is held for a claim, a pod, a gang or a workload: nobody else gets it until the deadline."""

    LINES: ClassVar = (Line("room held", Level.INFO),)
    METRICS: ClassVar = (Counted(NOMINATIONS),)

    nominee: Nominee
    nodes: Annotated[tuple[str, ...], Logged("names of nodes", list, texts)]
    devices: Devices
    deadline: Annotated[str, Logged("time of day, RFC 3339")]
    why: Annotated[str, Logged("why room is held")]


@dataclass(frozen=True, slots=True)
class NominationUsed(Decision):
    """Room is not held any more: what it was held for has its place."""

    LINES: ClassVar = (Line("held room used", Level.INFO),)
    METRICS: ClassVar = (Counted(NOMINATIONS_ENDED, ("used",)),)

    nominee: Nominee


@dataclass(frozen=True, slots=True)
class NominationExpired(Decision):
    """Room is not held any more: it was not used before the deadline. Others may take it now."""

    LINES: ClassVar = (Line("held room expired", Level.WARNING),)
    METRICS: ClassVar = (Counted(NOMINATIONS_ENDED, ("expired",)),)

    nominee: Nominee


@dataclass(frozen=True, slots=True)
class NominationDropped(Decision):
    """Room is not held any more: it is not wanted, or the plan that made it was aborted."""

    LINES: ClassVar = (Line("held room given up", Level.INFO),)
    METRICS: ClassVar = (Counted(NOMINATIONS_ENDED, ("dropped",)),)

    nominee: Nominee
    why: Annotated[str, Logged("why it is not held")]


@dataclass(frozen=True, slots=True)
class WorkloadChecked(Decision):
    """The admission check answered Kueue for a Workload."""

    LINES: ClassVar = (Line("workload checked", Level.INFO),)

    workload: Annotated[ObjectKey, Logged("NAMESPACE/NAME of a Workload", write=str)]
    state: Annotated[str, Logged("`Ready`, `Pending` or `Retry`")]
    reason: Annotated[str, Logged("a word of docs/reasons.md; empty if it is ready")]
    message: Message


@dataclass(frozen=True, slots=True)
class NodesRequested(Decision):
    """A ProvisioningRequest was made for pods that no present node can serve."""

    LINES: ClassVar = (Line("nodes requested", Level.INFO),)

    request: Annotated[ObjectKey, Logged("NAMESPACE/NAME of a ProvisioningRequest", write=str)]
    pod: PodKey
    """The first of the pods"""
    count: Annotated[int, Logged("pods that need new nodes", int)]
    shapes: Annotated[tuple[str, ...], Logged("nodes of which an empty one would serve them", list, texts)]


@dataclass(frozen=True, slots=True)
class NodesNotRequested(Decision):
    """A ProvisioningRequest of ours was removed."""

    LINES: ClassVar = (Line("nodes not requested any more", Level.INFO),)

    request: Annotated[ObjectKey, Logged("NAMESPACE/NAME of a ProvisioningRequest", write=str)]
    why: Annotated[str, Logged("why it is not needed")]


@dataclass(frozen=True, slots=True)
class RoomPlanned(Decision):
    """Room can be made for a pending pod or gang by evicting pods of lower priority."""

    LINES: ClassVar = (Line("room can be made", Level.INFO),)
    METRICS: ClassVar = (Counted(ROOM_PLANS),)

    nominee: Nominee
    victims: PodKeys
    nodes: Annotated[tuple[str, ...], Logged("names of nodes where it fits then", list, texts)]
    devices: Devices
    acts: Annotated[bool, Logged("whether the pods are evicted", bool)]
    why: Annotated[str, Logged("why they are not; empty if they are")]


@dataclass(frozen=True, slots=True)
class RoomPlanAborted(Decision):
    """A plan to evict pods is not carried out any further."""

    LINES: ClassVar = (Line("making room aborted", Level.WARNING),)
    METRICS: ClassVar = (Counted(ROOM_PLANS_ABORTED),)

    nominee: Nominee
    why: Annotated[str, Logged("what changed, or what the server said")]


@dataclass(frozen=True, slots=True)
class Evicted(Decision):
    """The API server granted the eviction of a pod, for a pod or gang of higher priority."""

    LINES: ClassVar = (Line("pod evicted", Level.WARNING),)
    METRICS: ClassVar = (Counted(EVICTIONS, ("preemption",)),)

    pod: PodKey
    uid: Uid
    nominee: Nominee


@dataclass(frozen=True, slots=True)
class MovesPlanned(Decision):
    """More of something fits if some pods move."""

    LINES: ClassVar = (Line("moves can be made", Level.INFO),)
    METRICS: ClassVar = (Counted(MOVE_PLANS),)

    goal: Goal
    counted: CountedThing
    before: Annotated[int, Logged("how many fit now", int)]
    after: Annotated[int, Logged("how many fit after the moves", int)]
    pods: PodKeys
    """In the order of the moves"""
    nodes: Annotated[tuple[str, ...], Logged("names of the nodes to which they move", list, texts)]
    acts: Annotated[bool, Logged("whether the pods are moved", bool)]
    why: Annotated[str, Logged("why they are not; empty if they are")]


@dataclass(frozen=True, slots=True)
class MovesAborted(Decision):
    """The rest of a plan to move pods is dropped."""

    LINES: ClassVar = (Line("moves aborted", Level.WARNING),)
    METRICS: ClassVar = (Counted(MOVE_PLANS_ABORTED),)

    goal: Goal
    pod: PodKey
    """The pod whose move could not be finished, or not begun"""
    uid: Uid
    pods: PodKeys
    """Those that stay"""
    why: Annotated[str, Logged("what changed, or what the server said")]


@dataclass(frozen=True, slots=True)
class MoveEvicted(Decision):
    """The API server granted the eviction of a pod that moves. Its new place is held."""

    LINES: ClassVar = (Line("pod evicted to move it", Level.WARNING),)
    METRICS: ClassVar = (Counted(EVICTIONS, ("rebalancing",)),)

    pod: PodKey
    uid: Uid
    node: Node
    to: Annotated[str, Logged("name of the node where its place is held")]
    devices: Devices
    counted: CountedThing
    place: Annotated[str, Logged("the counter set, group or node that gains")]


@dataclass(frozen=True, slots=True)
class PodMoved(Decision):
    """What replaces a pod that was moved runs at the place that was held for it."""

    LINES: ClassVar = (Line("pod moved", Level.INFO),)
    METRICS: ClassVar = (Counted(PODS_MOVED),)

    pod: PodKey
    replacement: Annotated[ObjectKey, Logged("NAMESPACE/NAME of the pod that replaces it", write=str)]
    node: Node
    devices: Devices


@dataclass(frozen=True, slots=True)
class GangPlaced(Decision):
    """Enough pods of a gang have nodes and devices together, and the API server has stored it.

    Their gates are removed next.
    """

    LINES: ClassVar = (Line("gang placed", Level.INFO),)
    METRICS: ClassVar = (Counted(GANGS),)

    gang: Gang
    size: Annotated[int, Logged("pods that must run together", int)]
    pods: PodKeys
    on: Annotated[tuple[str, ...], Logged("the node of each pod, in their order", list, write=list)]
    left_out: Annotated[
        tuple[ObjectKey, ...], Logged("pods that found no place, and are decided later", list, texts)
    ]
    domain: Annotated[
        tuple[tuple[str, str], ...], Logged("topology key -> value that the pods share", dict, write=dict)
    ]
    seconds: Seconds
    steps: Steps
    policy: Policy = None


@dataclass(frozen=True, slots=True)
class GangGivenBack(Decision):
    """A gang that was partly written gave that back, since the others found no place or fit elsewhere."""

    LINES: ClassVar = (Line("gang given back", Level.INFO),)
    METRICS: ClassVar = (Counted(GANGS_GIVEN_BACK),)

    gang: Gang
    claims: ClaimKeys
    why: Annotated[str, Logged("why it was given back")]


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
class HeldTwice(Decision):
    """Two claims hold a device that only one can hold.

    Another writer took part: this process alone never does it.
    """

    LINES: ClassVar = (Line("device held twice", Level.WARNING),)
    METRICS: ClassVar = (Counted(FINDINGS, ("held_twice",)),)

    device: Device
    claims: ClaimKeys


@dataclass(frozen=True, slots=True)
class Overdrawn(Decision):
    """By their annotations, pods hold more of a device than it has.

    Another writer took part: this process alone never does it.
    """

    LINES: ClassVar = (Line("device over-committed", Level.WARNING),)
    METRICS: ClassVar = (Counted(FINDINGS, ("overdrawn",)),)

    device: Device
    """Type, node and minor"""
    pods: PodKeys


@dataclass(frozen=True, slots=True)
class ExclusionViolated(Decision):
    """Devices that exclude one another are allocated at the same time.

    Also a `compatibleOnlyWith` expression that fails; then no claims are named.
    """

    LINES: ClassVar = (Line("exclusive devices held together", Level.WARNING),)
    METRICS: ClassVar = (Counted(FINDINGS, ("at_odds",)),)

    message: Message
    claims: ClaimKeys = ()


@dataclass(frozen=True, slots=True)
class GroupModeChanged(Decision):
    """The compatibility groups of a driver with held devices are compared in another way from now on.

    Its devices now say `compatibleOnlyWith`, or no longer do. Held devices stay held.
    """

    LINES: ClassVar = (Line("group mode changed", Level.WARNING),)

    driver: Annotated[str, Logged("name of the driver")]
    before: Annotated[str, Logged("the group mode until now")]
    after: Annotated[str, Logged("the group mode from now on")]
    held: Annotated[int, Logged("devices of the driver that are held", int)]


@dataclass(frozen=True, slots=True)
class OverCommitted(Decision):
    """Devices consume more of a counter set than it publishes.

    The slice was edited, or another writer took part.
    """

    LINES: ClassVar = (Line("counters over-committed", Level.WARNING),)
    METRICS: ClassVar = (Counted(FINDINGS, ("over_committed",)),)

    pool: Pool
    counter_set: CounterSet
    short: Annotated[tuple[tuple[str, str], ...], Logged("counter -> missing amount", dict, write=dict)]
    claims: ClaimKeys


@dataclass(frozen=True, slots=True)
class NoLongerOverCommitted(Decision):
    """A counter set is no longer over-committed, or is gone."""

    LINES: ClassVar = (Line("counters no longer over-committed", Level.INFO),)

    pool: Pool
    counter_set: CounterSet


@dataclass(frozen=True, slots=True)
class Uncharged(Decision):
    """An allocated device consumes counters that its pool no longer publishes; no claim is charged."""

    LINES: ClassVar = (Line("counters of held device no longer published", Level.WARNING),)
    METRICS: ClassVar = (Counted(FINDINGS, ("uncharged",)),)

    device: Device
    counter_set: CounterSet
    counters: Annotated[tuple[str, ...], Logged("names of counters of the set", list, write=list)]
    claims: ClaimKeys


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


class Outcome(StrEnum):
    """How our decision compares with that of another allocator."""

    AGREES = "agrees"
    OTHER_DEVICES = "other devices"
    OTHER_NODE = "other node"
    WE_REFUSE = "we refuse"
    THEY_WAIT = "they wait"


def _text_or_null(outcome: Outcome | None) -> str | None:
    return None if outcome is None else str(outcome)


@dataclass(frozen=True, slots=True)
class Compared(Decision):
    """Shadow mode: an allocation by another allocator, or a pending claim, compared with our decision."""

    LINES: ClassVar = (
        Line("shadow agrees", Level.INFO, "Shadow mode: our decision is the same."),
        Line("shadow differs", Level.INFO, "Shadow mode: our decision is different."),
    )

    outcome: Annotated[Outcome, Logged(", ".join(Outcome), write=str)]
    claims: ClaimKeys
    """The allocated claim, or all pending claims of a pod"""
    pod: MaybePodKey
    node: Node = ""
    devices: Devices = ()
    their_node: Annotated[
        str, Logged("the node of the other scheduler; empty if its devices allow several")
    ] = ""
    their_devices: Annotated[
        tuple[DeviceID, ...], Logged("the devices that the other scheduler allocated", list, texts)
    ] = ()
    there: Annotated[
        Outcome | None,
        Logged(
            "the outcome of our decision on their node, if our node is another one",
            (str, type(None)),
            _text_or_null,
        ),
    ] = None
    message: Message = ""
    """The reason of our refusal"""

    @property
    def line(self) -> Line:
        """The line for the outcome."""
        agrees, differs = self.LINES
        return agrees if self.outcome is Outcome.AGREES else differs


@dataclass(frozen=True, slots=True)
class WritesPaused(Decision):
    """Writes are paused. Reported again when the reason changes."""

    LINES: ClassVar = (Line("writes paused", Level.WARNING),)

    reason: Annotated[str, Logged("why writes are paused")]


@dataclass(frozen=True, slots=True)
class HeldBack(Decision):
    """The pause holds back a write of a claim, of a pod with its claims, or of a gang.

    Reported once for each.
    """

    LINES: ClassVar = (Line("write skipped while paused", Level.INFO),)

    claim: MaybeClaimKey
    pod: MaybePodKey
    gang: MaybeGang = None


@dataclass(frozen=True, slots=True)
class WritesResumed(Decision):
    """Writes are enabled again."""

    LINES: ClassVar = (Line("writes resumed", Level.INFO),)

    held: Annotated[int, Logged("claims and pods whose writes were held back", int)]


DECISIONS = tuple(
    kind
    for kind in list(vars().values())
    if isinstance(kind, type) and issubclass(kind, Decision) and kind is not Decision
)
"""Every kind of decision, in the order of this file"""

Report = Callable[[Decision], None]
"""Reports a decision, or gets one that is reported"""
