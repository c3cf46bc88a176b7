"""Decisions to hold room for somebody, and how that ends."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from reconciler.control.decisions.decision import Decision
from reconciler.control.decisions.declaration import Counted, Level, Line, Logged
from reconciler.control.decisions.fields import (
    Devices,
    Nominee,
    texts,
)
from reconciler.control.decisions.metric import MetricSpec

NOMINATIONS = MetricSpec(
    "nominations_total", "counter", "Nominations: room that was held for a claim, a pod or a gang."
)

NOMINATIONS_ENDED = MetricSpec(
    "nominations_ended_total",
    "counter",
    "Nominations that ended.",
    (("result", "`used`, `expired` or `dropped`"),),
)


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
