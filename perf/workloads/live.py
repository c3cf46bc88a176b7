"""Claims through HTTP, end to end, and events through the path by which a picture is kept."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from random import Random
from time import perf_counter

from perf.deciding import Wrong
from perf.fleets import mig
from perf.fleets.objects import Json, claim
from perf.live import Cluster, cluster, in_flight, server
from perf.workload import Figure, Outcome, Progress, Size, Workload, latencies
from perf.workloads.mig import drawn_profiles
from reconciler import app
from reconciler.aio.queue import Queue
from reconciler.cluster.client import Client
from reconciler.cluster.kinds import NODE, Resource
from reconciler.cluster.transport import Query, Response, Transport
from reconciler.cluster.watch import follow
from reconciler.cluster.writer import Writer
from reconciler.inventory.store import Store
from reconciler.legacy.reading import read
from reconciler.objects.changes import Change
from reconciler.objects.claims import AllocatedDevice, Allocation, DeviceAllocation, ResourceClaim
from reconciler.objects.plan import Plan
from reconciler.objects.semantics import Semantics
from reconciler.reconcile.decisions import Allocated, Decision
from reconciler.reconcile.intake import Intake
from reconciler.reconcile.ownership import MANAGED
from reconciler.settings import Settings

PATIENCE = 300.0
"""Seconds after which claims that are still not allocated fail the run"""


class Heard:
    """When each claim was told to be allocated, and what it got."""

    def __init__(self) -> None:
        self.at: dict[str, float] = {}
        self.devices: list[str] = []
        self._news = asyncio.Event()

    def tell(self, decision: Decision) -> None:
        """Take note of a decision."""
        if isinstance(decision, Allocated):
            self.at[decision.claim.name] = perf_counter()
            self.devices += [str(device) for device in decision.devices]
            self._news.set()

    async def wait(self, count: int) -> None:
        """Wait until so many claims are allocated."""
        async with asyncio.timeout(PATIENCE):
            while len(self.at) < count:
                self._news.clear()
                await self._news.wait()


def e2e(size: Size, progress: Progress) -> Outcome:
    """A backlog of claims, then one claim at a time, then writes without decisions."""
    return asyncio.run(_e2e(size, progress))


async def _e2e(size: Size, progress: Progress) -> Outcome:
    backlog, single, floor = size["backlog"], size["single"], size["floor"]
    of = backlog + single + floor
    heard = Heard()
    async with server() as transport, cluster(transport) as made:
        await made.create_all(mig.fleet(size["nodes"]))
        profiles = drawn_profiles(of)
        await made.create_all(_claim(n, profile) for n, profile in enumerate(profiles[:backlog]))
        began = perf_counter()
        taken: list[float] = []
        async with _reconciling(transport, heard):
            await heard.wait(backlog)
            progress(backlog, of)
            times = sorted(heard.at.values())
            for number in range(backlog, backlog + single):
                sent = perf_counter()
                await made.create(_claim(number, profiles[number]))
                await heard.wait(number + 1)
                taken.append(heard.at[f"claim-{number}"] - sent)
                progress(number + 1, of)
        writes = await _write_floor(made, range(backlog + single, of))
        progress(of, of)
    if len(set(heard.devices)) != len(heard.devices):
        raise Wrong("a device was given out twice")
    return Outcome([
        Figure("claims/s", (backlog - 1) / (times[-1] - times[0]), "/s", "more"),
        Figure("start to first allocation", times[0] - began, "s"),
        *latencies(taken, "creation to allocation"),
        Figure("write floor", floor / writes, "/s", "more"),
    ])  # fmt: skip


@asynccontextmanager
async def _reconciling(transport: Transport, heard: Heard) -> AsyncIterator[None]:
    settings = Settings(own_drivers=frozenset({mig.DRIVER}))
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(app.run(settings, transport, stop=stop, tell=heard.tell), name="reconciler")
        try:
            yield
        finally:
            stop.set()


def _claim(number: int, profile: str) -> Json:
    raw = claim(f"claim-{number}", [mig.partition("partition", profile)])
    del raw["metadata"]["uid"]
    raw["metadata"]["labels"] = {MANAGED: "true"}
    return raw


async def _write_floor(made: Cluster, numbers: Sequence[int]) -> float:
    """Seconds that the two writes of each claim take, with nothing to decide."""
    raws = await made.create_all(_claim(number, "1g.5gb") for number in numbers)
    writer = Writer(made.client, made.served, now=lambda: datetime.now(UTC))
    kind = made.served["ResourceClaim"]
    found = [read({"kind": kind.kind, "apiVersion": kind.api_version, **raw}) for raw in raws]
    claims = [one for one in found if isinstance(one, ResourceClaim)]

    async def write(one: ResourceClaim) -> None:
        device = AllocatedDevice(request="partition", driver=mig.DRIVER, pool="node", device=one.key.name)
        allocation = Allocation(devices=DeviceAllocation(results=(device,)))
        plan = Plan(one.key, one.metadata.uid, one.metadata.resource_version, "node", allocation)
        await writer.write(plan, one)

    began = perf_counter()
    await in_flight(write, claims)
    return perf_counter() - began


class Scripted:
    """A transport whose server lists what it is given and then tells prepared lines."""

    def __init__(self, listing: Sequence[Json], lines: Sequence[bytes]) -> None:
        self._listing = json.dumps({"metadata": {"resourceVersion": "1"}, "items": listing}).encode()
        self._lines = lines
        self.began = 0.0

    async def request(
        self,
        method: str,  # noqa: ARG002 - the transport's shape
        path: str,  # noqa: ARG002
        *,
        query: Query = (),  # noqa: ARG002
        body: bytes | None = None,  # noqa: ARG002
        content_type: str = "application/json",  # noqa: ARG002
        timeout: float,  # noqa: ARG002, ASYNC109
    ) -> Response:
        """The listing."""
        return Response(200, {}, self._listing)

    @asynccontextmanager
    async def stream(
        self,
        path: str,  # noqa: ARG002
        *,
        query: Query,  # noqa: ARG002
        idle: float,  # noqa: ARG002
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """The lines, as fast as they are taken."""
        self.began = perf_counter()
        yield self._all()

    async def _all(self) -> AsyncIterator[bytes]:
        for line in self._lines:
            yield line
        await asyncio.Event().wait()


def stream(size: Size, progress: Progress) -> Outcome:
    """Events of each kind from the line of a watch into the picture, nothing decided."""
    return asyncio.run(_stream(size, progress))


async def _stream(size: Size, progress: Progress) -> Outcome:
    fleet = list(mig.fleet(size["nodes"]))
    slices = [thing for thing in fleet if thing["kind"] == "ResourceSlice" and "devices" in thing["spec"]]
    nodes = [thing for thing in fleet if thing["kind"] == "Node"]
    claims = [_claim(number, profile) for number, profile in enumerate(drawn_profiles(size["claims"]))]
    kinds = [
        (Resource("ResourceClaim", "resource.k8s.io", "v1", "resourceclaims", namespaced=True), claims),
        (Resource("ResourceSlice", "resource.k8s.io", "v1", "resourceslices", namespaced=False), slices),
        (NODE, nodes),
    ]
    figures = []
    for number, (resource, objects) in enumerate(kinds):
        # A slice is as large as sixty claims.
        count = size["events"] // 10 if objects is slices else size["events"]
        rate = await _events(resource, objects, max(count, 1))
        figures.append(Figure(f"{resource.kind} events", rate, "/s", "more"))
        progress(number + 1, len(kinds))
    return Outcome(figures)


async def _events(resource: Resource, objects: Sequence[Json], count: int) -> float:
    """Events a second. Every event changes something."""
    lines = [_line(objects[n % len(objects)], n) for n in range(count)]
    listing = [_numbered(thing, n) for n, thing in enumerate(objects)]
    transport = Scripted(listing, lines)
    intake = Intake(
        Store(Semantics()), Queue(base=1.0, cap=1.0, random=Random(0).random), [resource.kind], lambda _: None
    )
    left = count + 1  # the listing is a change as well
    done = asyncio.Event()

    def take(change: Change) -> None:
        nonlocal left
        intake.take(change)
        left -= 1
        if not left:
            done.set()

    task = asyncio.create_task(follow(Client(transport), resource, sink=take, random=Random(0).random))
    await done.wait()
    seconds = perf_counter() - transport.began
    task.cancel()
    await asyncio.wait([task])
    return count / seconds


def _numbered(thing: Json, number: int) -> Json:
    metadata = {
        **thing["metadata"],
        "uid": f"uid-{thing['metadata']['name']}",
        "resourceVersion": str(number),
    }
    return {**thing, "metadata": metadata}


def _line(thing: Json, number: int) -> bytes:
    changed = _numbered(thing, 1000 + number)
    match thing["kind"]:
        case "ResourceClaim":
            result = {
                "request": "partition",
                "driver": mig.DRIVER,
                "pool": "node-00",
                "device": f"gpu-0-{number}",
            }
            changed["status"] = {"allocation": {"devices": {"results": [result]}}}
        case "ResourceSlice":
            first, *others = thing["spec"]["devices"]
            attributes = {**first["attributes"], "turn": {"int": number}}
            changed["spec"] = {**thing["spec"], "devices": [{**first, "attributes": attributes}, *others]}
        case "Node":
            changed["metadata"]["labels"] = {**thing["metadata"]["labels"], "turn": str(number)}
    return json.dumps({"type": "MODIFIED", "object": changed}).encode()


WORKLOADS = [
    Workload(
        "stream",
        "events a second from the lines of a watch into the picture",
        stream,
        {"": {"nodes": 50, "claims": 1000, "events": 3000}},
        tiny={"nodes": 1, "claims": 3, "events": 6},
    ),
    Workload(
        "e2e",
        "claims a second and creation to allocation, through HTTP",
        e2e,
        {"": {"nodes": 50, "backlog": 800, "single": 200, "floor": 500}},
        tiny={"nodes": 1, "backlog": 4, "single": 2, "floor": 2},
    ),
]
