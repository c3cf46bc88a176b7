"""The decisions about gangs, room, moves, nominations and workloads, and the list of all decisions."""

from typing import Annotated

from reconciler.api.objects.meta import ObjectKey
from reconciler.control.decisions import allocating, fields
from reconciler.control.decisions.declaration import Counted, Decision, Logged, metric

GANGS = metric("gangs_placed_total", "Gangs that were placed.")

GANGS_GIVEN_BACK = metric("gangs_given_back_total", "Partly written gangs that gave everything back.")


class GangPlaced(Decision, info="gang placed", counted=Counted(GANGS)):
    """Enough pods of a gang have nodes and devices, as stored by the API server.

    Their gates are removed next.
    """

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


class GangGivenBack(Decision, info="gang given back", counted=Counted(GANGS_GIVEN_BACK)):
    """A gang that was partly written gave its devices back."""

    gang: fields.Gang
    claims: fields.ClaimKeys
    why: Annotated[str, Logged("the cause")]


ROOM_PLANS = metric("room_plans_total", "New plans to evict pods, carried out or not.")

ROOM_PLANS_ABORTED = metric("room_plans_aborted_total", "Plans to evict pods that were aborted.")

EVICTIONS = metric(
    "evictions_total",
    "Pods that were evicted.",
    purpose="`preemption`: so that a pending pod or gang fits; `rebalancing`: to move the pod",
)


class RoomPlanned(Decision, info="room can be made", counted=Counted(ROOM_PLANS)):
    """Room can be made for a pending pod or gang by evictions."""

    nominee: fields.Nominee
    victims: fields.PodKeys
    nodes: Annotated[tuple[str, ...], Logged("names of nodes", list, fields.texts)]
    devices: fields.Devices
    acts: Annotated[bool, Logged("whether the pods are evicted", bool)]
    why: Annotated[str, Logged("the cause")]


class RoomPlanAborted(Decision, warning="making room aborted", counted=Counted(ROOM_PLANS_ABORTED)):
    """A plan to evict pods is dropped."""

    nominee: fields.Nominee
    why: Annotated[str, Logged("the cause")]


class Evicted(Decision, warning="pod evicted", counted=Counted(EVICTIONS, ("preemption",))):
    """A pod was evicted for one of higher priority."""

    pod: fields.PodKey
    uid: fields.Uid
    nominee: fields.Nominee


MOVE_PLANS = metric("move_plans_total", "New plans to move pods, carried out or not.")

MOVE_PLANS_ABORTED = metric("move_plans_aborted_total", "Plans to move pods that were aborted.")

PODS_MOVED = metric(
    "pods_moved_total", "Pods that were evicted and run again at the place that was held for them."
)


class MovesPlanned(Decision, info="moves can be made", counted=Counted(MOVE_PLANS)):
    """More of something fits if some pods move."""

    goal: fields.Goal
    counted: fields.CountedThing
    before: Annotated[int, Logged("how many fit; the group mode", int)]
    after: Annotated[int, Logged("how many fit; the group mode", int)]
    pods: fields.PodKeys
    """In the order of the moves"""
    nodes: Annotated[tuple[str, ...], Logged("names of nodes", list, fields.texts)]
    acts: Annotated[bool, Logged("whether the pods are moved", bool)]
    why: Annotated[str, Logged("the cause")]


class MovesAborted(Decision, warning="moves aborted", counted=Counted(MOVE_PLANS_ABORTED)):
    """The rest of a plan to move pods is dropped."""

    goal: fields.Goal
    pod: fields.PodKey
    """The pod whose move could not be finished, or not begun"""
    uid: fields.Uid
    pods: fields.PodKeys
    """Those that stay"""
    why: Annotated[str, Logged("the cause")]


class MoveEvicted(Decision, warning="pod evicted to move it", counted=Counted(EVICTIONS, ("rebalancing",))):
    """A pod was evicted to move. Its new place is held."""

    pod: fields.PodKey
    uid: fields.Uid
    node: fields.Node
    to: Annotated[str, Logged("name of a node")]
    devices: fields.Devices
    counted: fields.CountedThing
    place: Annotated[str, Logged("the counter set, group or node that gains")]


class PodMoved(Decision, info="pod moved", counted=Counted(PODS_MOVED)):
    """The replacement of a moved pod runs at its place."""

    pod: fields.PodKey
    replacement: Annotated[ObjectKey, Logged("NAMESPACE/NAME", write=str)]
    node: fields.Node
    devices: fields.Devices


NOMINATIONS = metric("nominations_total", "Nominations: room that was held for a claim, a pod or a gang.")

NOMINATIONS_ENDED = metric(
    "nominations_ended_total", "Nominations that ended.", result="`used`, `expired` or `dropped`"
)


class Nominated(Decision, info="room held", counted=Counted(NOMINATIONS)):
    """Room is held for something until the deadline."""

    nominee: fields.Nominee
    nodes: Annotated[tuple[str, ...], Logged("names of nodes", list, fields.texts)]
    devices: fields.Devices
    deadline: Annotated[str, Logged("time of day, RFC 3339")]
    why: Annotated[str, Logged("the cause")]


class NominationUsed(Decision, info="held room used", counted=Counted(NOMINATIONS_ENDED, ("used",))):
    """What the room was held for has its place."""

    nominee: fields.Nominee


class NominationExpired(
    Decision, warning="held room expired", counted=Counted(NOMINATIONS_ENDED, ("expired",))
):
    """Held room was not used before the deadline."""

    nominee: fields.Nominee


class NominationDropped(
    Decision, info="held room given up", counted=Counted(NOMINATIONS_ENDED, ("dropped",))
):
    """Held room is not wanted, or its plan was aborted."""

    nominee: fields.Nominee
    why: Annotated[str, Logged("the cause")]


class WorkloadChecked(Decision, info="workload checked"):
    """The admission check answered Kueue for a Workload."""

    workload: Annotated[ObjectKey, Logged("NAMESPACE/NAME", write=str)]
    state: Annotated[str, Logged("`Ready`, `Pending` or `Retry`")]
    reason: Annotated[str, Logged("a word of docs/reasons.md")]
    message: fields.Message


class NodesRequested(Decision, info="nodes requested"):
    """A ProvisioningRequest was made."""

    request: Annotated[ObjectKey, Logged("NAMESPACE/NAME", write=str)]
    pod: fields.PodKey
    """The first of the pods"""
    count: Annotated[int, Logged("as the name says", int)]
    shapes: Annotated[tuple[str, ...], Logged("nodes of which an empty one would serve them", list, list)]


class NodesNotRequested(Decision, info="nodes not requested any more"):
    """A ProvisioningRequest of ours was removed."""

    request: Annotated[ObjectKey, Logged("NAMESPACE/NAME", write=str)]
    why: Annotated[str, Logged("the cause")]


DECISIONS: tuple[type[Decision], ...] = tuple(
    kind
    for kind in (*vars(allocating).values(), *globals().values())
    if isinstance(kind, type) and issubclass(kind, Decision) and kind is not Decision
)
"""Every kind of decision, in the order of docs/logs.md"""
