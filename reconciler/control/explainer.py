"""Explains why units are pending, within a limited share of the time."""

import asyncio
from collections.abc import Callable, Iterable, Sequence

import structlog
from msgspec.structs import replace

from reconciler.allocation.dra.claim_shapes import selectors_are_quick
from reconciler.allocation.explanation import Explanation
from reconciler.api.objects.claims import ResourceClaim
from reconciler.control.decisions.allocating import Waits
from reconciler.control.decisions.declaration import Decision
from reconciler.control.handler import Decide, Step
from reconciler.control.units import Kind, Unit
from reconciler.state.devices.snapshot import Snapshot
from reconciler.state.store import Store

log = structlog.get_logger()

SHARE = 0.05
"""Maximum share of the time. An explanation for a whole fleet takes some milliseconds."""
BACKLOG = 64
"""Refusals that wait for their explanation. Further ones are passed on without one."""

Explain = Callable[[Sequence[ResourceClaim], Snapshot, Iterable[str] | None], Explanation]
"""Explains why claims cannot be allocated together on some nodes, or on any. Must not take long"""

Explained = Callable[[Waits, Explanation | None], None]


class RefusalQueue:
    """Refusals for the explainer. Adding one is cheap and never blocks the reconciler."""

    def __init__(self) -> None:
        self.due: asyncio.Queue[Waits] = asyncio.Queue(BACKLOG)
        """Refusals to explain, in order"""
        self.beyond: asyncio.Queue[Waits] = asyncio.Queue()
        """Refusals beyond the backlog, passed on at once"""

    def on_decision(self, decision: Decision) -> None:
        """Add a refusal. Other decisions are ignored."""
        if not isinstance(decision, Waits):
            return
        try:
            self.due.put_nowait(decision)
        except asyncio.QueueFull:
            self.beyond.put_nowait(decision)


class Explainer:
    """Passes on each refusal once, with its explanation if there is time."""

    def __init__(
        self,
        store: Store,
        refusals: RefusalQueue,
        step: Callable[[Unit], Step],
        *,
        explain: Explain,
        clock: Callable[[], float],
        explained: Explained,
    ) -> None:
        """`step` says what a unit needs now, `explain` why it cannot have it; `clock` counts seconds;
        `explained` gets every refusal.
        """
        self._store = store
        self._refusals = refusals
        self._step = step
        self._why = explain
        self._clock = clock
        self._explained = explained

    async def run(self) -> None:
        """Explain and pass on until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._explain_those_due(), name="explain those due")
            group.create_task(self._pass_on_the_others(), name="pass on the others")

    async def _explain_those_due(self) -> None:
        while True:
            waits = await self._refusals.due.get()
            began = self._clock()
            explanation = self._explain(waits)
            spent = self._clock() - began
            self._explained(waits, explanation)
            await asyncio.sleep(spent / SHARE - spent)

    async def _pass_on_the_others(self) -> None:
        while True:
            self._explained(await self._refusals.beyond.get(), None)

    def _explain(self, waits: Waits) -> Explanation | None:
        """None if the unit needs no devices, or no longer, since the state has changed. None for gangs.

        Also None for claims whose selectors are not evaluated yet: that might block the loop.
        """
        if (waits.pod is None and not waits.claims) or waits.gang is not None:
            return None
        unit = Unit(Kind.POD, waits.pod) if waits.pod is not None else Unit(Kind.CLAIM, waits.claims[0])
        try:
            question = self._step(unit)
            if not isinstance(question, Decide):
                return None
            snapshot = self._store.snapshot_for(question.own)
            if not selectors_are_quick(question.claims, snapshot):
                return None
            found = self._why(question.claims, snapshot, question.nodes)
        except Exception:
            # A missing explanation must not stop the reconciler.
            log.exception("explanation failed", unit=str(unit), decision_id=waits.decision_id)
            return None
        if found.allocatable:
            return None
        found = replace(found, reason=waits.reason, message=waits.message)
        log.info(
            "claim explained",
            claims=[str(claim) for claim in waits.claims],
            reason=waits.reason,
            why=found.short(),
            remedy=found.remedy,
            decision_id=waits.decision_id,
        )
        return found
