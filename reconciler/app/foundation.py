"""Parts that are built before the first request: telemetry, the candidate, the transport."""

import asyncio
import socket
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from random import getrandbits
from typing import NamedTuple

import structlog
from msgspec import Struct

from reconciler.app.from_settings import elects, shard_of, terms_of
from reconciler.cluster.client import Client
from reconciler.cluster.kinds import Resource
from reconciler.cluster.transport import GuardedTransport, Transport, never
from reconciler.ha.campaign import FencedTransport, Leases
from reconciler.ha.elector import Elector
from reconciler.operations.metrics.meters import Metered, Traces, tracing
from reconciler.operations.serving.port import StatusPort
from reconciler.operations.telemetry import Telemetry
from reconciler.settings import Settings

log = structlog.get_logger()
now = partial(datetime.now, UTC)
"""The time of day with its zone"""


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
    traces: Traces
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
