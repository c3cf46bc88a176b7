"""Takes the decisions of which Events tell. Reading them is up to the recorder, which is built later."""

import asyncio

from reconciler.control.decisions.allocating import (
    Allocated,
    DevicesGiven,
    ExclusionViolated,
    HeldTwice,
    Ungated,
    Waits,
)
from reconciler.control.decisions.declaration import Decision
from reconciler.control.decisions.every import Evicted, MoveEvicted, MovesAborted
from reconciler.operations.events.lasting import LastingRefusals

BACKLOG = 256
"""Queued decisions of each sort; further ones have no Event"""

Outcome = Allocated | DevicesGiven | Ungated | Evicted | MoveEvicted | MovesAborted
Finding = HeldTwice | ExclusionViolated


class EventInbox:
    """Adding a decision is cheap and never blocks."""

    def __init__(self, lasting: LastingRefusals) -> None:
        self.lasting = lasting
        """Refusals, until they have lasted"""
        self.outcomes: asyncio.Queue[Outcome] = asyncio.Queue(BACKLOG)
        """What was written"""
        self.findings: asyncio.Queue[Finding] = asyncio.Queue(BACKLOG)
        """Devices that claims hold in conflict"""

    def on_decision(self, decision: Decision) -> None:
        """Add a decision, unless no Event tells of its kind."""
        match decision:
            case Waits():
                self.lasting.add(decision)
            case Allocated() | DevicesGiven() | Ungated() | Evicted() | MoveEvicted() | MovesAborted():
                if not self.outcomes.full():
                    self.outcomes.put_nowait(decision)
            case HeldTwice() | ExclusionViolated():
                if not self.findings.full():
                    self.findings.put_nowait(decision)
