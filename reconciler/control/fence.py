"""Before the first decision: what a predecessor may have sent in its last moments is fenced off.

A process that was killed may have an allocation on its way. To us its claim looks as if nobody had decided,
so the same devices could be given to another. But every allocation is announced: the claim is marked first.
Taking that mark back makes another version of the claim, which the late write cannot hit.
"""

import asyncio
from collections.abc import Callable

import structlog

from reconciler.api.objects.claims import ALLOCATED_AT, FINALIZER, ResourceClaim
from reconciler.cluster.writer import Writer
from reconciler.control.intake import Intake
from reconciler.control.ownership import Ownership
from reconciler.errors import Gone, Rejected, Retry
from reconciler.ha.shards.membership import Side

log = structlog.get_logger()

PAUSE, LONGEST_PAUSE = 0.1, 5.0
"""Seconds between attempts, doubling"""


class Fence:
    """Keeps all turns waiting until no allocation of a predecessor can arrive any more."""

    def __init__(
        self,
        intake: Intake,
        writer: Writer,
        ours: Ownership,
        *,
        clock: Callable[[], float],
        patience: float,
    ) -> None:
        """A claim that cannot be written to is waited out for `patience` seconds by `clock`."""
        self._ours = ours
        self.up = asyncio.Event()
        self._intake = intake
        self._writer = writer
        self._clock = clock
        self._patience = patience

    def lower(self) -> None:
        """Others may write from now on: nothing is decided until it was raised again."""
        self.up.clear()

    async def raise_(self) -> None:
        """Fence off every claim of ours that is marked and not allocated. Cancelled: the fence is not up.

        The picture must show all marks that a predecessor set, so whatever is sent afterwards comes too late.
        """
        await self._intake.listed.wait()
        marked = [claim for claim in self._intake.store.claims.values() if self._concerns(claim)]
        if marked:
            log.info("fencing writes of the previous leader", claims=[str(claim.key) for claim in marked])
        until = self._clock() + self._patience
        async with asyncio.TaskGroup() as group:
            for claim in marked:
                group.create_task(self._fence_off(claim, until), name=f"fence off {claim.key}")
        self.up.set()

    def _concerns(self, claim: ResourceClaim) -> bool:
        """Whether a mark was set by one of ours. Other shards, of now or before, were waited out."""
        side = self._ours.side(claim, lambda: self._intake.store.snapshot().classes).side
        return side is Side.OURS and _is_marked(claim)

    async def _fence_off(self, claim: ResourceClaim, until: float) -> None:
        pause = PAUSE
        while True:
            try:
                return await self._take_back(claim)
            except Gone:
                return None
            except Rejected as exc:
                # It may never be let through. What is later than a write may be is not coming.
                log.warning("cannot fence claim", claim=str(claim.key), error=str(exc))
                return await asyncio.sleep(max(until - self._clock(), 0.0))
            except Retry as exc:
                await asyncio.sleep(max(pause, exc.after))
                pause = min(2 * pause, LONGEST_PAUSE)

    async def _take_back(self, claim: ResourceClaim) -> None:
        """Take the mark back if it is still there. If the late write was faster, that is seen instead."""
        found = await self._writer.read_claim(claim.key)
        if found is None or found.metadata.uid != claim.metadata.uid:
            return
        self._intake.observe(found)
        if _is_marked(found):
            self._intake.observe(await self._writer.withdraw(found))


def _is_marked(claim: ResourceClaim) -> bool:
    """Whether an allocation was announced and is not there. Deletion made another version already."""
    metadata = claim.metadata
    return (
        claim.allocation is None
        and not claim.deleting
        and FINALIZER in metadata.finalizers
        and ALLOCATED_AT in metadata.annotations
    )
