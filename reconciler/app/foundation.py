"""Parts that are built before the first request: telemetry, the candidate, the transport; and when this
process may decide: always without a Lease, otherwise while it holds the Lease.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from random import getrandbits, random
from typing import NamedTuple

import structlog
from msgspec import Struct

from reconciler.app.from_settings import elects, shard_of, terms_of
from reconciler.cluster.client import Client
from reconciler.cluster.kinds import Resource, Served
from reconciler.cluster.transport import GuardedTransport, Transport, never
from reconciler.cluster.watch import Recall
from reconciler.control.fence import Fence
from reconciler.control.intake import Intake
from reconciler.errors import ReconcilerError
from reconciler.ha.campaign import Campaign, FencedTransport, Leases
from reconciler.ha.elector import Elector
from reconciler.operations.metrics import catalogue as of
from reconciler.operations.metrics.meters import Metered, NoTraces, labelled, single, tracing
from reconciler.operations.page.sources import Fact
from reconciler.operations.serving.port import Row, StatusPort
from reconciler.operations.telemetry import Signals, Telemetry
from reconciler.settings import Settings

log = structlog.get_logger()
now = partial(datetime.now, UTC)
"""The time of day with its zone"""

RELEASE_SECONDS = 5.0
"""Timeout for releasing the Lease at the end. With the drain time and that of Events that wait
(`FLUSH_SECONDS`) it fits the grace period of 40 s."""


class LeaderRole(Struct, frozen=True):
    """What a candidate needs before the first request."""

    elector: Elector
    leases: Leases
    transport: FencedTransport
    """The transport of every write"""


def leader_role(
    settings: Settings, transport: Transport, *, identity: str, clock: Callable[[], float]
) -> LeaderRole | None:
    """None if no Lease decides who writes. Raises Rejected as `shard_of` and `terms_of` do."""
    elector = Elector(identity, shard_of(settings), terms_of(settings))
    if not elects(settings):
        return None
    # Neither paused nor counted as progress: a loop that is stuck may well renew its lease.
    patience = settings.renew_seconds / 2
    client = Client(transport, read_seconds=patience, write_seconds=patience)
    leases = Leases(client, settings.lease_namespace, now=now)
    return LeaderRole(elector, leases, FencedTransport(transport, elector, clock))


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
        await self._intake.listed.wait()  # who has no picture yet should not keep others from leading
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


class Connection(NamedTuple):
    """A client, and the counter of its requests."""

    client: Client
    metered: Metered


class Foundation(Struct, frozen=True):
    """Parts that exist from the start, with which all others are built."""

    settings: Settings
    stop: asyncio.Event
    """Set to end the process"""
    clock: Callable[[], float]
    """Seconds, as the event loop counts them"""
    port: StatusPort | None
    role: LeaderRole | None
    """None if no Lease decides who writes"""
    transport: Transport
    """The transport of every request: writes are fenced without the Lease, and refused in shadow mode"""
    traces: NoTraces
    telemetry: Telemetry

    def connection(self, transport: Transport, watched: Iterable[Resource] = ()) -> Connection:
        """A client whose requests are counted and traced; `watched` are kinds with metrics of their own."""
        metered = Metered(transport, self.telemetry.meters, self.clock, watched)
        client = Client(self.traces.transport(metered), write_seconds=self.settings.write_seconds)
        return Connection(client, metered)


def foundation(
    settings: Settings, transport: Transport, *, stop: asyncio.Event, port: StatusPort | None
) -> Foundation:
    """Build what needs no response of the server. The status port responds from here on.

    Raises Rejected for durations of the Lease that cannot be, and where traces are not installed.
    """
    clock = asyncio.get_running_loop().time
    role = leader_role(settings, transport, identity=_identity(), clock=clock)
    lease = role.elector.shard.lease if role is not None else ""
    telemetry = Telemetry(settings, stop=stop, now=now, lease=lease, port=port)
    fenced = transport if role is None else role.transport
    return Foundation(
        settings=settings,
        stop=stop,
        clock=clock,
        port=port,
        role=role,
        transport=GuardedTransport(fenced, never) if settings.mode == "shadow" else fenced,
        traces=tracing(),
        telemetry=telemetry,
    )


def _identity() -> str:
    """A name for this process that no other process has or had."""
    return f"{socket.gethostname()}_{getrandbits(64):016x}"
