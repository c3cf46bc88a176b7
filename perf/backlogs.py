"""Backlogs of claims through HTTP, and the writes of as many claims alone, in turns."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from time import perf_counter, process_time

import numpy as np

from perf.fleets import mig
from perf.fleets.objects import Json
from perf.live import CONFIG_MAP, Cluster, Lag, Pace, in_flight, in_namespace
from perf.replica import Heard, reconciling
from perf.workload import Figure, Size
from reconciler.api.objects.claims import AllocatedDevice, Allocation, DeviceAllocation, ResourceClaim
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.plan import Plan
from reconciler.api.versions.reading import read
from reconciler.cluster.transport import Transport
from reconciler.cluster.writer import Writer

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
        withdrawals=set(),
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


SWITCH = ObjectKey("default", "perf-pause")
"""The ConfigMap that pauses the process, so that a backlog can wait for it"""
KINDS = 3
"""Backlogs in a round, at most"""
RUNNING, ANNOUNCED = ", running", ", announced"
"""What is said of a figure"""

Claims = Callable[[int], list[Json]]
"""Makes so many claims that were not made before"""


async def rounds(
    transport: Transport, made: Cluster, heard: Heard, claims: Claims, size: Size, announced: str
) -> list[Figure]:
    """A process that starts with a backlog, one that gets it while it runs, and writes alone.

    They take turns, and each is first in as many rounds. All count from the same claim of a burst to its
    last, so what is compared was measured within seconds, on a machine that is as busy. `announced` is a
    namespace where claims are announced; empty if there is none.
    """
    found = _Rounds(transport, made, heard, claims, size)
    parts: list[Callable[[], Awaitable[None]]] = [
        found.starting,
        partial(found.running, RUNNING),
        found.floor,
    ]
    if announced:
        parts.append(partial(found.running, ANNOUNCED, announced))
    await made.create(_switch(paused=True))
    for turn in range(size["rounds"]):
        first = turn % len(parts)
        for part in (*parts[first:], *parts[:first]):
            await part()
    return found.figures()


class _Rounds:
    """What was measured until now."""

    def __init__(self, transport: Transport, made: Cluster, heard: Heard, claims: Claims, size: Size) -> None:
        self._transport = transport
        self._made = made
        self._heard = heard
        self._claims = claims
        self._size = size
        self._ours: dict[str, list[Pace]] = {"": []}
        """By what is said of the figures; those of a start first"""
        self._floors: list[Pace] = []
        self._starts: list[float] = []
        self._lag = Lag()

    async def starting(self) -> None:
        """A process starts when the claims are there."""
        count = self._size["backlog"]
        await self._made.create_all(self._claims(count))
        loop = asyncio.get_running_loop()
        before, began = len(self._heard.at), loop.time()
        async with reconciling(self._transport, self._heard), self._lag.measured():
            await self._heard.wait(before + 1)
            self._starts.append(loop.time() - began)
            await self._heard.wait(before + count)
        self._ours[""].append(Pace.of(self._heard.done[before:]))

    async def running(self, about: str, namespace: str = "") -> None:
        """A process runs when the claims come, and holds them back until the server is done with them.

        The first claim tells when it runs. The others are created in the namespace, if one is named.
        """
        count, heard = self._size["backlog"], self._heard
        first, *others = self._claims(count)
        before, held = len(heard.at), heard.held
        await self._pause(paused=True)
        async with reconciling(self._transport, heard, switch=str(SWITCH)):
            await self._made.create(first)
            await heard.wait_held(held + 1)
            await self._made.create_all(in_namespace(raw, namespace) if namespace else raw for raw in others)
            await heard.wait_held(held + count)
            await asyncio.sleep(SETTLES)
            await self._pause(paused=False)
            await heard.wait(before + count)
        self._ours.setdefault(about, []).append(Pace.of(heard.done[before:]))

    async def floor(self) -> None:
        """The writes alone."""
        self._floors.append(await write_floor(self._made, self._claims(self._size["floor"])))

    def figures(self) -> list[Figure]:
        """The medians, and what the process reaches of the writes alone in the same round."""
        found: list[Figure] = []
        for about, ours in self._ours.items():
            found += [
                Figure(f"claims/s{about}", _rate(ours), "/s", "more"),
                *_parts(ours, self._floors, about),
                Figure(f"processor time of a claim{about}", _spent(ours), "ms"),
            ]
        return [
            *found,
            Figure("write floor", _rate(self._floors), "/s", "more"),
            Figure("processor time of its two writes alone", _spent(self._floors), "ms"),
            Figure("start to first allocation", float(np.median(self._starts)), "s"),
            *self._lag.figures("listing and allocating"),
        ]

    async def _pause(self, *, paused: bool) -> None:
        data = {"data": _switch(paused=paused)["data"]}
        await self._made.client.patch(CONFIG_MAP, SWITCH, data)


def _switch(*, paused: bool) -> Json:
    metadata = {"name": SWITCH.name, "namespace": SWITCH.namespace}
    data = {"pause": "true" if paused else "false"}
    return {"apiVersion": "v1", "kind": CONFIG_MAP.kind, "metadata": metadata, "data": data}


def _parts(ours: Sequence[Pace], floors: Sequence[Pace], about: str) -> list[Figure]:
    parts = [100 * mine.rate / floor.rate for mine, floor in zip(ours, floors, strict=True)]
    low, middle, high = np.percentile(parts, [25, 50, 75]).tolist()
    return [
        Figure(f"claims/s, part of the write floor{about}", middle, "%", "more"),
        Figure(f"that part, lower quartile of the rounds{about}", low, "%", ""),
        Figure(f"that part, upper quartile of the rounds{about}", high, "%", ""),
    ]


def _rate(paces: Sequence[Pace]) -> float:
    return float(np.median([one.rate for one in paces]))


def _spent(paces: Sequence[Pace]) -> float:
    """In milliseconds."""
    return float(np.median([one.spent for one in paces])) * 1e3
