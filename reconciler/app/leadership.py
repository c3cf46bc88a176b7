"""How this process comes to decide: at once where it is alone, otherwise while it holds the Lease."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

import structlog

from reconciler.app.from_settings import elects, shard_of, terms_of
from reconciler.cluster.client import Client
from reconciler.cluster.kinds import Served
from reconciler.cluster.transport import Transport
from reconciler.cluster.watch import Recall
from reconciler.control.fence import Fence
from reconciler.control.intake import Intake
from reconciler.errors import ReconcilerError
from reconciler.ha.campaign import Campaign
from reconciler.ha.elector import Elector
from reconciler.ha.fenced_transport import FencedTransport
from reconciler.ha.leases import Leases
from reconciler.settings import Settings

log = structlog.get_logger()

RELEASE_SECONDS = 5.0
"""For giving up the Lease at the end; with what begun writes may take this fits a pod's 40 s."""


@dataclass(frozen=True, slots=True)
class LeaderRole:
    """What a candidate needs before the server is first asked."""

    elector: Elector
    leases: Leases
    transport: FencedTransport
    """Where every write has to pass"""


def leader_role(
    settings: Settings, transport: Transport, *, identity: str, clock: Callable[[], float]
) -> LeaderRole | None:
    """None where no Lease decides who writes. Raises Rejected as `shard_of` and `terms_of` do."""
    elector = Elector(identity, shard_of(settings), terms_of(settings))
    if not elects(settings):
        return None
    # Neither paused nor counted as progress: a loop that is stuck may well renew its lease.
    patience = settings.renew_seconds / 2
    client = Client(transport, read_seconds=patience, write_seconds=patience)
    leases = Leases(client, settings.lease_namespace, now=lambda: datetime.now(UTC))
    return LeaderRole(elector, leases, FencedTransport(transport, elector, clock))


class Leadership(Protocol):
    """Decides when this process may write."""

    def leads(self) -> bool:
        """Whether this process decides now."""

    def leading(self) -> AbstractAsyncContextManager[None]:
        """Decide beside the block where that is allowed, until the writes of the block are over."""


class Alone:
    """Leads always, once what a predecessor may have sent was fenced off."""

    def __init__(self, fence: Fence) -> None:
        self._fence = fence

    def leads(self) -> bool:
        return True

    @asynccontextmanager
    async def leading(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            raising = group.create_task(self._fence.raise_(), name="fence")
            yield
            raising.cancel()


class Candidate:
    """Leads while it holds the Lease. Who waits for it is as ready as who holds it."""

    def __init__(
        self,
        role: LeaderRole,
        intake: Intake,
        fence: Fence,
        recalls: dict[str, Recall],
        *,
        clock: Callable[[], float],
    ) -> None:
        """`recalls` list again what may be behind when the Lease changes hands; `clock` counts seconds."""
        self._role = role
        self._intake = intake
        self._fence = fence
        self._recalls = recalls
        self._clock = clock
        self.elector = role.elector
        self.campaign = Campaign(
            role.elector,
            role.leases,
            clock=clock,
            random=random.random,
            begin=self._take_over,
            end=fence.lower,
        )

    def leads(self) -> bool:
        return self._fence.up.is_set() and self.elector.leads(self._clock())

    @asynccontextmanager
    async def leading(self) -> AsyncIterator[None]:
        """Campaign once all is listed; give the Lease up at the end.

        A block that fails leaves the Lease to end by itself: what it has sent may still arrive.
        """
        async with asyncio.TaskGroup() as group:
            running = group.create_task(self._run(), name="campaign")
            yield
            running.cancel()
        try:
            async with asyncio.timeout(RELEASE_SECONDS):
                await self.campaign.give_up(self._role.transport.quiet_at)
        except (TimeoutError, ReconcilerError) as exc:
            log.warning("lease not released, it will expire", error=str(exc))

    async def _run(self) -> None:
        await self._intake.listed.wait()  # who has no picture yet should not keep others from leading
        await self.campaign.run()

    async def _take_over(self) -> None:
        await self._intake.listed.wait()
        async with asyncio.TaskGroup() as group:
            for recall in self._recalls.values():
                group.create_task(recall.listed_again())
        await self._fence.raise_()
        log.info("became leader", lease=self.elector.shard.lease)


def recalls_for(settings: Settings, served: Served) -> dict[str, Recall]:
    """By kind of what holds devices: their watches may be behind when the Lease changes hands."""
    holders = ("ResourceClaim", "Pod") if settings.koordinator else ("ResourceClaim",)
    return {kind: Recall() for kind in holders if elects(settings) and kind in served}
