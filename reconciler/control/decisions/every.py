"""The decisions about gangs, room, moves, nominations and workloads, and the list of all decisions."""

from typing import Annotated, ClassVar

from reconciler.api.objects.meta import ObjectKey
from reconciler.control.decisions import allocating, fields
from reconciler.control.decisions.declaration import Counted, Decision, Level, Line, Logged, MetricSpec

GANGS = MetricSpec("gangs_placed_total", "Gangs that were placed.")

GANGS_GIVEN_BACK = MetricSpec("gangs_given_back_total", "Partly written gangs that gave everything back.")


class GangPlaced(Decision):
    """Enough pods of a gang have nodes and devices, as stored by the API server.

    Their gates are removed next.
    """

    LINES: ClassVar = (Line("gang placed", Level.INFO),)
    METRICS: ClassVar = (Counted(GANGS),)

    gang: fields.Gang
    size: Annotated[int, Logged("pods that the gang needs", int)]
    pods: fields.PodKeys
    on: Annotated[tuple[str, ...], Logged("the node of each pod, in their order", list, write=list)]
    left_out: Annotated[
        tuple[ObjectKey, ...], Logged("pods that found no place, and are decided later", list, fields.texts)
    ]
    domain: Annotated[
        tuple[tuple[str, str], ...], Logged("topology key -> value that the pods share", dict, write=dict)
    ]
    seconds: fields.Seconds
    steps: fields.Steps
    policy: fields.Policy = None


class GangGivenBack(Decision):
    """A gang that was partly written gave its devices back."""

    LINES: ClassVar = (Line("gang given back", Level.INFO),)
    METRICS: ClassVar = (Counted(GANGS_GIVEN_BACK),)

    gang: fields.Gang
    claims: fields.ClaimKeys
    why: Annotated[str, Logged("the cause")]


ROOM_PLANS = MetricSpec("room_plans_total", "New plans to evict pods, carried out or not.")

ROOM_PLANS_ABORTED = MetricSpec("room_plans_aborted_total", "Plans to evict pods that were aborted.")

EVICTIONS = MetricSpec(
    "evictions_total",
    "Pods that were evicted.",
    (("purpose", "`preemption`: so that a pending pod or gang fits; `rebalancing`: to move the pod"),),
)


class RoomPlanned(Decision):
    """Room can be made for a pending pod or gang by evictions."""

    LINES: ClassVar = (Line("room can be made", Level.INFO),)
    METRICS: ClassVar = (Counted(ROOM_PLANS),)

    nominee: fields.Nominee
    victims: fields.PodKeys
    nodes: Annotated[tuple[str, ...], Logged("names of nodes", list, fields.texts)]
    devices: fields.Devices
    acts: Annotated[bool, Logged("whether the pods are evicted", bool)]
    why: Annotated[str, Logged("the cause")]


class RoomPlanAborted(Decision):
    """A plan to evict pods is dropped."""

    LINES: ClassVar = (Line("making room aborted", Level.WARNING),)
    METRICS: ClassVar = (Counted(ROOM_PLANS_ABORTED),)

    nominee: fields.Nominee
    why: Annotated[str, Logged("the cause")]


class Evicted(Decision):
    """A pod was evicted for one of higher priority."""

    LINES: ClassVar = (Line("pod evicted", Level.WARNING),)
    METRICS: ClassVar = (Counted(EVICTIONS, ("preemption",)),)

    pod: fields.PodKey
    uid: fields.Uid
    nominee: fields.Nominee


MOVE_PLANS = MetricSpec("move_plans_total", "New plans to move pods, carried out or not.")

MOVE_PLANS_ABORTED = MetricSpec("move_plans_aborted_total", "Plans to move pods that were aborted.")

PODS_MOVED = MetricSpec(
    "pods_moved_total", "Pods that were evicted and run again at the place that was held for them."
)


class MovesPlanned(Decision):
    """More of something fits if some pods move."""

    LINES: ClassVar = (Line("moves can be made", Level.INFO),)
    METRICS: ClassVar = (Counted(MOVE_PLANS),)

    goal: fields.Goal
    counted: fields.CountedThing
    before: Annotated[int, Logged("how many fit; the group mode", int)]
    after: Annotated[int, Logged("how many fit; the group mode", int)]
    pods: fields.PodKeys
    """In the order of the moves"""
    nodes: Annotated[tuple[str, ...], Logged("names of nodes", list, fields.texts)]
    acts: Annotated[bool, Logged("whether the pods are moved", bool)]
    why: Annotated[str, Logged("the cause")]


class MovesAborted(Decision):
    """The rest of a plan to move pods is dropped."""

    LINES: ClassVar = (Line("moves aborted", Level.WARNING),)
    METRICS: ClassVar = (Counted(MOVE_PLANS_ABORTED),)

    goal: fields.Goal
    pod: fields.PodKey
    """The pod whose move could not be finished, or not begun"""
    uid: fields.Uid
    pods: fields.PodKeys
    """Those that stay"""
    why: Annotated[str, Logged("the cause")]


class MoveEvicted(Decision):
    """A pod was evicted to move. Its new place is held."""

    LINES: ClassVar = (Line("pod evicted to move it", Level.WARNING),)
    METRICS: ClassVar = (Counted(EVICTIONS, ("rebalancing",)),)

    pod: fields.PodKey
    uid: fields.Uid
    node: fields.Node
    to: Annotated[str, Logged("name of a node")]
    devices: fields.Devices
    counted: fields.CountedThing
    place: Annotated[str, Logged("the counter set, group or node that gains")]


class PodMoved(Decision):
    """The replacement of a moved pod runs at its place."""

    LINES: ClassVar = (Line("pod moved", Level.INFO),)
    METRICS: ClassVar = (Counted(PODS_MOVED),)

    pod: fields.PodKey
    replacement: Annotated[ObjectKey, Logged("NAMESPACE/NAME", write=str)]
    node: fields.Node
    devices: fields.Devices


NOMINATIONS = MetricSpec("nominations_total", "Nominations: room that was held for a claim, a pod or a gang.")

NOMINATIONS_ENDED = MetricSpec(
    "nominations_ended_total", "Nominations that ended.", (("result", "`used`, `expired` or `dropped`"),)
)


class Nominated(Decision):
    """Room is held for something until the deadline."""

    LINES: ClassVar = (Line("room held", Level.INFO),)
    METRICS: ClassVar = (Counted(NOMINATIONS),)

    nominee: fields.Nominee
    nodes: Annotated[tuple[str, ...], Logged("names of nodes", list, fields.texts)]
    devices: fields.Devices
    deadline: Annotated[str, Logged("time of day, RFC 3339")]
    why: Annotated[str, Logged("the cause")]


class NominationUsed(Decision):
    """What the room was held for has its place."""

    LINES: ClassVar = (Line("held room used", Level.INFO),)
    METRICS: ClassVar = (Counted(NOMINATIONS_ENDED, ("used",)),)

    nominee: fields.Nominee


class NominationExpired(Decision):
    """Held room was not used before the deadline."""

    LINES: ClassVar = (Line("held room expired", Level.WARNING),)
    METRICS: ClassVar = (Counted(NOMINATIONS_ENDED, ("expired",)),)

    nominee: fields.Nominee


class NominationDropped(Decision):
    """Held room is not wanted, or its plan was aborted."""

    LINES: ClassVar = (Line("held room given up", Level.INFO),)
    METRICS: ClassVar = (Counted(NOMINATIONS_ENDED, ("dropped",)),)

    nominee: fields.Nominee
    why: Annotated[str, Logged("the cause")]


class WorkloadChecked(Decision):
    """The admission check answered Kueue for a Workload."""

    LINES: ClassVar = (Line("workload checked", Level.INFO),)

    workload: Annotated[ObjectKey, Logged("NAMESPACE/NAME", write=str)]
    state: Annotated[str, Logged("`Ready`, `Pending` or `Retry`")]
    reason: Annotated[str, Logged("a word of docs/reasons.md")]
    message: fields.Message


class NodesRequested(Decision):
    """A ProvisioningRequest was made."""

    LINES: ClassVar = (Line("nodes requested", Level.INFO),)

    request: Annotated[ObjectKey, Logged("NAMESPACE/NAME", write=str)]
    pod: fields.PodKey
    """The first of the pods"""
    count: Annotated[int, Logged("as the name says", int)]
    shapes: Annotated[tuple[str, ...], Logged("nodes of which an empty one would serve them", list, list)]


class NodesNotRequested(Decision):
    """A ProvisioningRequest of ours was removed."""

    LINES: ClassVar = (Line("nodes not requested any more", Level.INFO),)

    request: Annotated[ObjectKey, Logged("NAMESPACE/NAME", write=str)]
    why: Annotated[str, Logged("the cause")]


DECISIONS: tuple[type[Decision], ...] = tuple(
    kind
    for kind in (*vars(allocating).values(), *globals().values())
    if isinstance(kind, type) and issubclass(kind, Decision) and kind is not Decision
)
"""Every kind of decision, in the order of docs/logs.md"""
