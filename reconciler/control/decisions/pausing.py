"""Decisions that are held back while writes are paused."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from reconciler.control.decisions.decision import Decision
from reconciler.control.decisions.declaration import Level, Line, Logged
from reconciler.control.decisions.fields import (
    MaybeClaimKey,
    MaybeGang,
    MaybePodKey,
)


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
