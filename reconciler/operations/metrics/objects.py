"""Counts claims and slices at each scrape, in several steps, so that the event loop stays responsive."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.slices import ResourceSlice
from reconciler.control.intake import Intake
from reconciler.control.ownership import Ownership
from reconciler.ha.shard import Side
from reconciler.operations.metrics import catalogue as of
from reconciler.operations.metrics.scraping import Reading, Values, by

AT_ONCE = 1024
"""Objects that are counted before the event loop may run other tasks: a millisecond"""

T = TypeVar("T")


class ObjectCounts:
    """The claims and slices of a shard. Before all kinds are listed, nothing is counted."""

    def __init__(self, intake: Intake, ours: Ownership) -> None:
        self._intake = intake
        self._ours = ours
        self.claims: dict[str, int] = {}
        """State -> claims"""
        self.slices: dict[str, int] = {}
        """How nodes are selected -> slices"""
        self.oldest: float | None = None
        """When the oldest claim was created that we have to allocate, in seconds since 1970"""

    def readings(self) -> list[Reading]:
        """Refresh before."""
        return [
            by(of.CLAIMS, lambda: self.claims),
            Reading(of.OLDEST_PENDING, self._oldest),
            by(of.SLICES, lambda: self.slices),
        ]

    async def refresh(self) -> None:
        """Count again. If cancelled, the counts stay unchanged."""
        if not self._intake.listed.is_set():
            return
        claims, slices = Counter(allocated=0, unallocated=0), Counter(per_device=0)
        oldest: ResourceClaim | None = None
        store = self._intake.store
        async for claim in _in_steps(store.claims.values()):
            if self._ours.side(claim, lambda: store.snapshot().classes).side is Side.ELSEWHERE:
                continue
            claims["unallocated" if claim.allocation is None else "allocated"] += 1
            if self._is_pending(claim) and (oldest is None or _created(claim) < _created(oldest)):
                oldest = claim
        async for source in _in_steps(store.slices):
            slices[_node_selection(source)] += 1
        created = oldest.metadata.created if oldest is not None else None
        self.oldest = created.timestamp() if created is not None else None
        self.claims, self.slices = dict(claims), dict(slices)

    def _is_pending(self, claim: ResourceClaim) -> bool:
        """Whether we have to allocate a claim: it is ours, or of a gated pod."""
        if claim.allocation is not None or claim.deleting or claim.metadata.creation_timestamp is None:
            return False
        if self._ours.claims(claim):
            return True
        users = (self._intake.store.pods.get(key) for key in self._intake.roster.users(claim.key))
        return any(pod is not None and pod.gated for pod in users)

    def _oldest(self) -> Values:
        return [] if self.oldest is None else [((), self.oldest)]


async def _in_steps(things: Iterable[T]) -> AsyncIterator[T]:
    for number, thing in enumerate(list(things), 1):
        yield thing
        if number % AT_ONCE == 0:
            await asyncio.sleep(0)


def _created(claim: ResourceClaim) -> str:
    """The API server writes all times in one format, which sorts as text."""
    return claim.metadata.creation_timestamp or ""


def _node_selection(source: ResourceSlice) -> str:
    spec = source.spec
    if spec.per_device_node_selection:
        return "per_device"
    if spec.all_nodes:
        return "all_nodes"
    if spec.node_selector is not None:
        return "node_selector"
    return "node_name" if spec.node_name else "none"
