"""Before the first decision, fences off allocations that a predecessor may still have in flight.

A process that was killed may have sent an allocation that arrives later. Its claim still looks unallocated,
so the same devices could be given to another claim. But every allocation is announced by a mark on the claim.
Removing the mark changes the resourceVersion of the claim, so the late write gets a conflict. If an admission
policy announces claims as they are created, all that are pending have a mark at first (CO-14).

A predecessor may also have been giving back a gang, whose claims look allocated until then. Their
resourceVersion is changed, too: otherwise a pod could lose its devices after its gate was removed (GANG-25).
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import structlog
from msgspec import Struct, field

from reconciler.api.objects.claims import ALLOCATED_AT, FINALIZER, ResourceClaim, is_ours
from reconciler.api.objects.core import is_live
from reconciler.api.objects.gangs import SEAT
from reconciler.api.objects.meta import ObjectKey
from reconciler.cluster.writer import Writer
from reconciler.control.intake import Intake
from reconciler.control.ownership import Ownership
from reconciler.control.settler import HandOver
from reconciler.control.special_claims import wanted_claim
from reconciler.errors import Gone, Rejected, Retry
from reconciler.ha.shard import Side

log = structlog.get_logger()

PAUSE, LONGEST_PAUSE = 0.1, 5.0
"""Seconds between attempts, doubling"""
AT_ONCE = 32
"""Claims that are fenced off concurrently"""
NAMED = 20
"""Claims that the log names"""


class Fence(Struct, eq=False):
    """Blocks all reconciles until no write of a predecessor to a claim can arrive any more."""

    _intake: Intake
    _writer: Writer
    _ours: Ownership
    clock: Callable[[], float]
    patience: float
    """Seconds that it waits for what cannot be written"""
    hand_over: HandOver | None = None
    """Wrote pods, if any are"""
    take_over: Callable[[], Awaitable[None]] | None = None
    """Done before the fence is up"""
    up: asyncio.Event = field(default_factory=asyncio.Event)

    def lower(self) -> None:
        """Another replica may write from now on. Nothing is decided until the fence is raised again."""
        self.up.clear()

    async def raise_(self) -> None:
        """Fence off our claims that are marked and not allocated, or allocated for gated pods of a gang.

        Cancelled: the fence is not up.

        The state must contain all marks that a predecessor set.
        """
        await self._intake.listed.wait()
        marked = [claim for claim in self._intake.store.claims.values() if self._concerns(claim)]
        if marked:
            log.info("fencing writes of the previous leader", claims=_names(marked))
        until, free = self.clock() + self.patience, asyncio.Semaphore(AT_ONCE)
        async with asyncio.TaskGroup() as group:
            for claim in marked:
                change = partial(self._change_version, claim)
                group.create_task(self._fence_off(claim.key, change, until, free))
            if self.hand_over is not None:
                for key in self._gated():
                    change = partial(self.hand_over.fence_off, key)
                    group.create_task(self._fence_off(key, change, until, free))
        if self.take_over is not None:
            await self.take_over()
        self.up.set()

    def _concerns(self, claim: ResourceClaim) -> bool:
        """Whether the claim is in our shard and a late write to it would matter. Writes of other shards have
        timed out.
        """
        if not (_is_marked(claim) or self._is_seat(claim)):
            return False
        return self._ours.side(claim, lambda: self._intake.store.snapshot().classes).side is Side.OURS

    def _is_seat(self, claim: ResourceClaim) -> bool:
        """Whether a predecessor may be giving back a claim of a gang."""
        if SEAT not in claim.metadata.annotations or claim.status.reserved_for or not is_ours(claim):
            return False
        return self._intake.is_gated(claim.key)

    def _gated(self) -> list[ObjectKey]:
        """Gated pods whose gate may be about to go, with nothing held (EXT-5)."""
        store = self._intake.store
        gated = [pod for pod in store.pods.values() if pod.gated and is_live(pod)]
        return [pod.key for pod in gated if wanted_claim(pod, store) is not None]

    async def _fence_off(
        self, key: ObjectKey, change: Callable[[], Awaitable[None]], until: float, free: asyncio.Semaphore
    ) -> None:
        pause = PAUSE
        while True:
            try:
                async with free:
                    return await change()
            except Gone:
                return None
            except Rejected as exc:
                # It may be rejected for ever. After the timeout of a write, no late write can arrive.
                log.warning("cannot fence claim", claim=str(key), error=str(exc))
                return await asyncio.sleep(max(until - self.clock(), 0.0))
            except Retry as exc:
                await asyncio.sleep(max(pause, exc.after))
                pause = min(2 * pause, LONGEST_PAUSE)

    async def _change_version(self, claim: ResourceClaim) -> None:
        """Remove the mark if it is still there. If the late write was faster, take in what it wrote."""
        found = await self._writer.read_claim(claim.key)
        if found is None or found.metadata.uid != claim.metadata.uid:
            return
        self._intake.observe(found)
        if _is_marked(found):
            self._intake.observe(await self._writer.withdraw(found))
        elif self._is_seat(found):
            self._intake.observe(await self._writer.touch(found))


def _names(claims: Sequence[ResourceClaim]) -> list[str]:
    rest = len(claims) - NAMED
    names = [str(claim.key) for claim in claims[:NAMED]]
    return names if rest <= 0 else [*names, f"and {rest} more"]


def _is_marked(claim: ResourceClaim) -> bool:
    """Whether an allocation was announced and is not there. Deletion has changed the version already."""
    metadata = claim.metadata
    return (
        claim.allocation is None
        and not claim.deleting
        and FINALIZER in metadata.finalizers
        and ALLOCATED_AT in metadata.annotations
    )
