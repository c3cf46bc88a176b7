"""When this process may decide: always without a Lease, otherwise while it holds the Lease."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from random import random

import structlog

from reconciler.app.foundation import LeaderRole, now
from reconciler.app.from_settings import elects
from reconciler.cluster.kinds import Served
from reconciler.cluster.watch import Recall
from reconciler.control.fence import Fence
from reconciler.control.intake import Intake
from reconciler.errors import ReconcilerError
from reconciler.ha.campaign import Campaign
from reconciler.operations.metrics import catalogue as of
from reconciler.operations.metrics.meters import labelled, single
from reconciler.operations.page.sources import Fact
from reconciler.operations.serving.port import Row
from reconciler.operations.telemetry import Signals
from reconciler.settings import Settings

log = structlog.get_logger()

RELEASE_SECONDS = 5.0
"""Timeout for releasing the Lease at the end. With the drain time and that of Events that wait
(`FLUSH_SECONDS`) it fits the grace period of 40 s."""


class Alone:
    """Leads always, once late writes of a predecessor are fenced off."""

    def __init__(self, fence: Fence) -> None:
        self._fence = fence

    def leads(self) -> bool:
        """Whether this process decides now."""
        return True

    @asynccontextmanager
    async def leading(self) -> AsyncIterator[None]:
        """Lead while the block runs, whenever that is allowed."""
        async with asyncio.TaskGroup() as group:
            raising = group.create_task(self._fence.raise_(), name="fence")
            yield
            raising.cancel()


class Candidate:
    """Leads while it holds the Lease. A standby keeps its state as ready as the leader."""

    def __init__(
        self,
        role: LeaderRole,
        intake: Intake,
        fence: Fence,
        recalls: dict[str, Recall],
        *,
        clock: Callable[[], float],
    ) -> None:
        """`recalls` list kinds again when the Lease changes hands; `clock` counts seconds."""
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
            now=now,
            random=random,
            begin=self._take_over,
            end=fence.lower,
        )

    def leads(self) -> bool:
        """Whether this process decides now."""
        return self._fence.up.is_set() and self.elector.leads(self._clock())

    @asynccontextmanager
    async def leading(self) -> AsyncIterator[None]:
        """Campaign once all kinds are listed; release the Lease at the end.

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
        await self._intake.listed.wait()  # without a complete state, let others lead
        await self.campaign.run()

    async def _take_over(self) -> None:
        await self._intake.listed.wait()
        async with asyncio.TaskGroup() as group:
            for recall in self._recalls.values():
                group.create_task(recall.listed_again())
        await self._fence.raise_()
        log.info("became leader", lease=self.elector.shard.lease)


Leadership = Alone | Candidate
"""Decides when this process may write"""


def recalls_for(settings: Settings, served: Served, also: Iterable[str]) -> dict[str, Recall]:
    """For each kind that holds devices, `also` these: its watch may be behind at a change of the Lease."""
    holders = ("ResourceClaim", *also)
    return {kind: Recall() for kind in holders if elects(settings) and kind in served}


def lease_signals(candidate: Candidate, clock: Callable[[], float]) -> Signals:
    """Replaces the signals of a candidate from before its campaign. `clock` counts seconds."""
    elector, campaign = candidate.elector, candidate.campaign
    lease = elector.shard.lease

    def overlap() -> str:
        rivals = (f"{rival.name} of {rival.holder or 'nobody any more'}" for rival in campaign.rivals)
        others = ", ".join(rivals)
        shard = str(elector.shard) or "of the whole fleet"
        return f"shard {shard} overlaps with Lease {others}" if others else ""

    def rows() -> list[Row]:
        shard = str(elector.shard) or "the whole fleet"
        left = elector.clear_at - clock()
        ours = elector.holder == elector.identity
        wait = f"{left:.0f} s: {elector.clear_of}" if left > 0 and ours else "no"
        return [("name", lease), ("holder", elector.holder), ("shard", shard), ("waits", wait)]

    return Signals(
        ready={"shard": overlap},
        sections={"Leader": lambda: [("leading", "yes" if candidate.leads() else "no")], "Lease": rows},
        readings=[
            labelled(of.LEADER, lambda: {lease: float(candidate.leads())}),
            single(of.RIVALS, lambda: len(campaign.rivals)),
        ],
        facts=[lambda: Fact("Lease", f"{lease}, held by {elector.holder or 'nobody'}")],
    )
