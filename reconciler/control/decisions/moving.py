"""Decisions to move pods so that more fits."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from reconciler.api.objects.meta import ObjectKey
from reconciler.control.decisions.decision import Decision
from reconciler.control.decisions.declaration import Counted, Level, Line, Logged
from reconciler.control.decisions.fields import CountedThing, Devices, Goal, Node, PodKey, PodKeys, Uid, texts
from reconciler.control.decisions.making_room import EVICTIONS
from reconciler.control.decisions.metric import MetricSpec

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
