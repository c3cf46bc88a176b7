"""What the two writes of a claim cost alone: the floor below every figure of claims through HTTP.

The same code writes, over the same HTTP client with as many requests in flight as a process has by default.
Nothing is watched, listed, decided, logged, or told in an Event. Where the API server and etcd share the
processors with the client, they bound it, and what a process does beside its writes takes from their time.
"""

import asyncio
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from time import perf_counter, process_time

from perf.fleets import mig
from perf.fleets.objects import Json
from perf.live import Cluster, in_flight
from perf.pace import Pace
from reconciler.api.objects.claims import AllocatedDevice, Allocation, DeviceAllocation, ResourceClaim
from reconciler.api.objects.plan import Plan
from reconciler.api.versions.reading import read
from reconciler.cluster.echoes import Echoes
from reconciler.cluster.writer import Withdrawals, Writer

SETTLES = 1.5
"""Seconds for the server to get done with what came before: its garbage is collected for a second after a
process has listed the fleet, and takes as much processor time as its writes"""


async def write_floor(made: Cluster, raws: Iterable[Json]) -> Pace:
    """Create claims of one request `partition` each, then allocate each to a device that does not exist."""
    claims = _read(made, await made.create_all(raws))
    await asyncio.sleep(SETTLES)
    writer = Writer(
        made.client,
        made.served,
        echoes=Echoes(holds=lambda *_: False, add=lambda _: None),
        withdrawals=Withdrawals(),
        now=lambda: datetime.now(UTC),
    )
    done: list[tuple[float, float]] = []

    async def write(one: ResourceClaim) -> None:
        device = AllocatedDevice(request="partition", driver=mig.DRIVER, pool="node", device=one.key.name)
        allocation = Allocation(devices=DeviceAllocation(results=(device,)))
        plan = Plan(one.key, one.metadata.uid, one.metadata.resource_version, "node", allocation)
        await writer.write(plan, one)
        done.append((perf_counter(), process_time()))

    await in_flight(write, claims)
    return Pace.of(done)


def _read(made: Cluster, raws: Sequence[Json]) -> list[ResourceClaim]:
    kind = made.served["ResourceClaim"]
    found = [read({"kind": kind.kind, "apiVersion": kind.api_version, **raw}) for raw in raws]
    return [one for one in found if isinstance(one, ResourceClaim)]
