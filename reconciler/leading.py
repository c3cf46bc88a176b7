"""What it takes to lead, put together: the Lease, the door for writes, and what happens before a decision."""

import asyncio
import random
import socket
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import structlog

from reconciler.cluster.client import Client
from reconciler.cluster.kinds import Served
from reconciler.cluster.transport import Transport
from reconciler.cluster.watch import Recall
from reconciler.election.campaign import Campaign
from reconciler.election.door import FencedTransport
from reconciler.election.elector import Elector
from reconciler.election.leases import Leases
from reconciler.election.record import LONGEST, Terms
from reconciler.errors import ReconcilerError, Rejected
from reconciler.observation import Observation
from reconciler.reconcile.fencing import Fence
from reconciler.reconcile.intake import Intake
from reconciler.settings import Settings
from reconciler.shards.shard import Shard, parse

log = structlog.get_logger()

RELEASE_SECONDS = 5.0
"""For giving up the Lease at the end; with what begun writes may take this fits a pod's 40 s."""


class Office:
    """What a candidate needs from before the server is first asked. Whoever is alone is always in office."""

    def __init__(self, settings: Settings, transport: Transport, *, clock: Callable[[], float]) -> None:
        """`clock` counts seconds. Raises Rejected as `shard_of` and `terms_of` do."""
        identity = f"{socket.gethostname()}_{random.getrandbits(64):016x}"
        self.elects = elects(settings)
        self.clock = clock
        self.elector = Elector(identity, shard_of(settings), terms_of(settings))
        self._fenced = FencedTransport(transport, self.elector, clock)
        self.door: Transport = self._fenced if self.elects else transport
        """Where every write has to pass"""
        # Neither paused nor counted as progress: a loop that is stuck may well renew its lease.
        patience = settings.renew_seconds / 2
        client = Client(transport, read_seconds=patience, write_seconds=patience)
        self._leases = Leases(client, settings.lease_namespace, now=lambda: datetime.now(UTC))
        holders = ("ResourceClaim", "Pod") if settings.koordinator else ("ResourceClaim",)
        self.recalls = {kind: Recall() for kind in holders} if self.elects else {}
        """By kind of what holds devices: their watches may be behind when the Lease changes hands"""

    def serving(self, served: Served) -> None:
        """What the server has is known: what it does not serve cannot be listed again."""
        self.recalls = {kind: recall for kind, recall in self.recalls.items() if kind in served}

    @property
    def quiet_at(self) -> float:
        """When no write that was sent and not answered can arrive any more."""
        return self._fenced.quiet_at

    def campaign(self, intake: Intake, fence: Fence) -> Campaign:
        """The candidate at work."""

        async def take_over() -> None:
            await intake.listed.wait()
            async with asyncio.TaskGroup() as group:
                for recall in self.recalls.values():
                    group.create_task(recall.listed_again())
            await fence.raise_()
            log.info("leading", lease=self.elector.shard.lease)

        return Campaign(
            self.elector,
            self._leases,
            clock=self.clock,
            random=random.random,
            begin=take_over,
            end=fence.lower,
        )


@asynccontextmanager
async def campaigning(office: Office, intake: Intake, fence: Fence, seen: Observation) -> AsyncIterator[None]:
    """Campaign beside the block once all is listed, until its writes are over; then give the Lease up.

    A block that fails leaves the Lease to end by itself: what it has sent may still arrive.
    """
    if not office.elects:
        async with asyncio.TaskGroup() as group:
            raising = group.create_task(fence.raise_(), name="fence")
            yield
            raising.cancel()
        return
    campaign = office.campaign(intake, fence)
    seen.elected(office.elector, campaign, fence)

    async def run() -> None:
        await intake.listed.wait()  # who has no picture yet should not keep others from leading
        await campaign.run()

    async with asyncio.TaskGroup() as group:
        running = group.create_task(run(), name="campaign")
        yield
        running.cancel()
    try:
        async with asyncio.timeout(RELEASE_SECONDS):
            await campaign.give_up(office.quiet_at)
    except (TimeoutError, ReconcilerError) as exc:
        log.warning("lease not released, it ends by itself", error=str(exc))


def elects(settings: Settings) -> bool:
    """Whether a Lease decides who may write. In shadow mode nobody writes."""
    return settings.leader_elect and settings.mode != "shadow"


def shard_of(settings: Settings) -> Shard:
    """What this process owns of the fleet. Raises Rejected where that cannot be had."""
    shard = parse(settings.shard)
    if shard.whole:
        return shard
    if not elects(settings):
        raise Rejected("a shard is kept apart from others by Leases: add --leader-elect, or drop --shard")
    if settings.koordinator:
        raise Rejected(
            "--koordinator does not go with --shard: a shard is drivers and pools, which Koordinator's "
            "devices have none of, and a shard without --koordinator would free pods from their gate that "
            "wait for such devices. Serve the whole fleet with one process, or drop --koordinator"
        )
    return shard


def terms_of(settings: Settings) -> Terms:
    """The durations of the Lease. Raises Rejected for those with which nobody could ever write."""
    terms = Terms(
        settings.lease_seconds, settings.renew_seconds, settings.retry_seconds, settings.write_seconds
    )
    ordered: Iterable[tuple[str, float, str, float]] = (
        ("lease_seconds", terms.lease, "renew_seconds", terms.renew),
        ("renew_seconds", terms.renew, "retry_seconds", terms.retry),
        ("lease_seconds", terms.lease, "write_seconds and retry_seconds together", terms.write + terms.retry),
    )
    for name, more, than, less in ordered:
        if more <= less:
            raise Rejected(f"setting {name}: must be more than {than}, {less:g}, got {more:g}")
    if elects(settings) and terms.lease > LONGEST:  # other replicas would not believe our Lease
        raise Rejected(f"setting lease_seconds: must be {LONGEST:g} at most, got {terms.lease:g}")
    return terms
