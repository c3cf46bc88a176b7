"""Decisions to evict pods so that others fit."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from reconciler.control.decisions.decision import Decision
from reconciler.control.decisions.declaration import Counted, Level, Line, Logged
from reconciler.control.decisions.fields import (
    Devices,
    Nominee,
    PodKey,
    PodKeys,
    Uid,
    texts,
)
from reconciler.control.decisions.metric import MetricSpec

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
