"""Decisions about gangs."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from reconciler.api.objects.meta import ObjectKey
from reconciler.control.decisions.decision import Decision
from reconciler.control.decisions.declaration import Counted, Level, Line, Logged
from reconciler.control.decisions.fields import (
    ClaimKeys,
    Gang,
    PodKeys,
    Policy,
    Seconds,
    Steps,
    texts,
)
from reconciler.control.decisions.metric import MetricSpec

GANGS = MetricSpec(
    "gangs_placed_total", "counter", "Gangs of which enough pods got nodes and devices together."
)

GANGS_GIVEN_BACK = MetricSpec(
    "gangs_given_back_total",
    "counter",
    "Gangs that were only partly written, and gave everything back.",
)


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
