"""Comparisons of our decisions with those of another allocator, in shadow mode."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, ClassVar

from reconciler.api.objects.meta import DeviceID
from reconciler.control.decisions.decision import Decision
from reconciler.control.decisions.declaration import Level, Line, Logged
from reconciler.control.decisions.fields import (
    ClaimKeys,
    Devices,
    MaybePodKey,
    Message,
    Node,
    texts,
)


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
