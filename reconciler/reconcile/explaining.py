"""Explains why units wait: beside the work, in a bounded part of the time."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import structlog

from reconciler.allocator.forms import is_at_hand
from reconciler.explain.explanation import Explanation
from reconciler.inventory.snapshot import Snapshot
from reconciler.inventory.store import Store
from reconciler.objects.claims import ResourceClaim
from reconciler.reconcile.decisions import Decision, Waits
from reconciler.reconcile.steps import Decide, Step
from reconciler.reconcile.units import Kind, Unit

log = structlog.get_logger()

SHARE = 0.05
"""Part of the time that goes into explaining, at most. A whole fleet takes some milliseconds each."""
BACKLOG = 64
"""Refusals that wait for their explanation. What comes on top is passed on without one."""

Explain = Callable[[Sequence[ResourceClaim], Snapshot, Iterable[str] | None], Explanation]
"""Explains why claims cannot be allocated together on some nodes, or on any. Must not take long"""

Explained = Callable[[Waits, Explanation | None], None]


class Explainer:
    """Hears decisions; passes on each refusal once, in order, with its explanation where there is time."""

    def __init__(
        self,
        store: Store,
        step: Callable[[Unit], Step],
        *,
        explain: Explain,
        clock: Callable[[], float],
        explained: Explained,
    ) -> None:
        """`step` says what a unit needs now, `explain` why it cannot have it; `clock` counts seconds;
        `explained` hears every refusal.
        """
        self._store = store
        self._step = step
        self._why = explain
        self._clock = clock
        self._explained = explained
        self._due: asyncio.Queue[Waits] = asyncio.Queue(BACKLOG)

    def hear(self, decision: Decision) -> None:
        """Take in a decision. Costs next to nothing: who decides goes on at once."""
        if not isinstance(decision, Waits):
            return
        try:
            self._due.put_nowait(decision)
        except asyncio.QueueFull:
            self._explained(decision, None)

    async def run(self) -> None:
        """Explain until cancelled."""
        while True:
            waits = await self._due.get()
            began = self._clock()
            explanation = self._explain(waits)
            spent = self._clock() - began
            self._explained(waits, explanation)
            await asyncio.sleep(spent / SHARE - spent)

    def _explain(self, waits: Waits) -> Explanation | None:
        """None where no device is in question, or no longer: the picture has gone on since.

        Nor for claims whose selectors would have to be run first, which might hold up the loop.
        """
        if waits.pod is None and not waits.claims:
            return None
        unit = Unit(Kind.POD, waits.pod) if waits.pod is not None else Unit(Kind.CLAIM, waits.claims[0])
        try:
            asked = self._step(unit)
            if not isinstance(asked, Decide):
                return None
            world = self._store.snapshot()
            if not is_at_hand(asked.claims, world):
                return None
            found = self._why(asked.claims, world, asked.nodes)
        except Exception:
            # A note that cannot be written must not stop those who decide.
            log.exception("refusal not explained", unit=str(unit), decision_id=waits.decision_id)
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
