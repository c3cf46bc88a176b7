"""Events through the path by which a picture is kept: lines of a watch in, nothing decided.

And how late the event loop runs meanwhile, also while a whole fleet is listed, and its picture made.
"""

import asyncio
import gc
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from random import Random
from time import perf_counter

from perf.fleets import mig
from perf.fleets.objects import Json
from perf.live import Lag
from perf.workload import Figure, Outcome, Progress, Size, Workload
from perf.workloads.listing import SLICE
from perf.workloads.live import labelled_claim
from perf.workloads.mig import drawn_profiles
from reconciler.aio.queue import Queue
from reconciler.api.objects.changes import Notice
from reconciler.api.objects.semantics import Semantics
from reconciler.cluster.client import Client
from reconciler.cluster.kinds import NODE, Resource
from reconciler.cluster.transport import Request, Response, WatchRequest
from reconciler.cluster.watch import follow
from reconciler.control.build_ahead import build_ahead
from reconciler.control.intake import Intake
from reconciler.state.store import Store


class Scripted:
    """A transport whose server lists what it is given and then tells prepared lines."""

    def __init__(self, listing: Sequence[Json], lines: Sequence[bytes]) -> None:
        self._items = [json.dumps(item).encode() for item in listing]
        self._lines = lines
        self.began = 0.0

    async def send(self, request: Request) -> Response:
        """A page of the listing."""
        asked = dict(request.query)
        first = int(asked.get("continue", "0"))
        last = first + int(asked["limit"])
        token = b',"continue":"%d"' % last if last < len(self._items) else b""
        head = b'{"metadata":{"resourceVersion":"1"%b},"items":[' % token
        return Response(200, {}, head + b",".join(self._items[first:last]) + b"]}")

    @asynccontextmanager
    async def stream(
        self,
        request: WatchRequest,  # noqa: ARG002 - see Transport
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
    claims = [
        labelled_claim(number, profile) for number, profile in enumerate(drawn_profiles(size["claims"]))
    ]
    kinds = [
        (Resource("ResourceClaim", "resource.k8s.io", "v1", "resourceclaims", namespaced=True), claims),
        (SLICE, slices),
        (NODE, nodes),
    ]
    figures = []
    for number, (resource, objects) in enumerate(kinds):
        # A slice is as large as sixty claims.
        count = size["events"] // 10 if objects is slices else size["events"]
        figures += await _events(resource, objects, max(count, 1))
        progress(number + 1, len(kinds))
    return Outcome(figures)


async def _events(resource: Resource, objects: Sequence[Json], count: int) -> list[Figure]:
    """Events a second, of which every one changes something, and the lag of the loop."""
    lines = [_line(objects[n % len(objects)], n) for n in range(count)]
    listing = [_numbered(thing, n) for n, thing in enumerate(objects)]
    transport = Scripted(listing, lines)
    intake = Intake(
        Store(Semantics()), Queue(base=1.0, cap=1.0, random=Random(0).random), [resource.kind], lambda _: None
    )
    left = count
    done = asyncio.Event()

    def take(change: Notice) -> None:
        nonlocal left
        intake.take(change)
        left -= transport.began > 0
        if not left:
            done.set()

    lags = Lag(), Lag()
    gc.collect()  # what was made to measure with; the reconciler's own garbage is collected as it is there
    gc.freeze()
    async with lags[0].measured():
        task = asyncio.create_task(follow(Client(transport), resource, sink=take, random=Random(0).random))
        await intake.listed.wait()
        await build_ahead(intake.store)
        intake.store.snapshot()
    async with lags[1].measured():
        await done.wait()
        seconds = perf_counter() - transport.began
    task.cancel()
    await asyncio.wait([task])
    return [
        Figure(f"{resource.kind} events", count / seconds, "/s", "more"),
        *lags[0].figures(f"{resource.kind} listing"),
        *lags[1].figures(f"{resource.kind} events"),
    ]


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
        {
            "": {"nodes": 50, "claims": 1000, "events": 3000},
            "100,000 devices": {"nodes": 500, "claims": 1000, "events": 3000},
        },
        tiny={"nodes": 1, "claims": 3, "events": 6},
    ),
]
