"""A fleet from the pages of a listing to the first decision, as a process that starts reads it.

Pages have what a real server writes beside the specs, and lie in a file, so that neither their making nor
their memory counts. Processor time counts all threads; the lag is that of the event loop meanwhile.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import perf_counter, process_time

from perf.fleets import gpus, mig
from perf.fleets.objects import Json
from perf.fleets.served import served
from perf.live import Lag
from perf.workload import Figure, Outcome, Progress, Size, Workload
from perf.workloads.gpus import gpu_claim
from perf.workloads.mig import partition_claim
from reconciler.aio.queue import Queue
from reconciler.allocation.dra.allocate import allocate
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.plan import Granted
from reconciler.api.objects.semantics import Semantics
from reconciler.app.lifecycle import spare_the_collector
from reconciler.cluster.client import Client
from reconciler.cluster.kinds import NODE, Resource
from reconciler.cluster.transport import Request, Response, WatchRequest
from reconciler.cluster.watch import follow
from reconciler.control.build_ahead import build_ahead
from reconciler.control.intake import Intake
from reconciler.control.units import Unit
from reconciler.state.store import Store

SLICE = Resource(
    "ResourceSlice", "resource.k8s.io", "v1", "resourceslices", namespaced=False, page=50, singly=True
)
CLASS = Resource("DeviceClass", "resource.k8s.io", "v1", "deviceclasses", namespaced=False)
KINDS = (CLASS, SLICE, NODE)

FLEETS = {
    "gpus": (gpus.fleet, gpus.GPUS_A_NODE, lambda: gpu_claim(0, 4)),
    "mig": (mig.fleet, mig.GPUS_A_NODE * 26, lambda: partition_claim(0, "3g.20gb")),
}

SIZES = {"10k": 10_400, "100k": 100_000, "1M": 1_000_000}


class Pages:
    """A transport whose server lists what lies in files, and says nothing afterwards."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ends: dict[str, list[int]] = {}
        """Path of a kind -> where its objects end in its file"""
        self.seconds = 0.0
        """Processor time that went into pages"""
        self.bytes = 0

    def write(self, resource: Resource, items: Iterable[Json]) -> int:
        """What will be listed of a kind. Returns how many objects."""
        ends = self._ends.setdefault(resource.everywhere, [0])
        with self._file(resource.everywhere).open("wb") as out:
            for item in items:
                text = json.dumps(item, separators=(",", ":")).encode()
                out.write(text + b",")
                ends.append(ends[-1] + len(text) + 1)
        return len(ends) - 1

    async def send(self, request: Request) -> Response:
        """A page of the listing."""
        began = process_time()
        asked, ends = dict(request.query), self._ends[request.path]
        first = int(asked.get("continue", "0"))
        last = min(first + int(asked["limit"]), len(ends) - 1)
        token = b',"continue":"%d"' % last if last + 1 < len(ends) else b""
        with self._file(request.path).open("rb", buffering=0) as source:
            source.seek(ends[first])
            items = source.read(max(ends[last] - ends[first] - 1, 0))
        body = b'{"metadata":{"resourceVersion":"1"%b},"items":[%b]}' % (token, items)
        self.bytes += len(body)
        self.seconds += process_time() - began
        return Response(200, {}, body)

    @asynccontextmanager
    async def stream(
        self,
        request: WatchRequest,  # noqa: ARG002 - see Transport
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """A watch without events."""
        yield _silence()

    def _file(self, path: str) -> Path:
        return self._folder / path.replace("/", "-")


async def _silence() -> AsyncIterator[bytes]:
    await asyncio.Event().wait()
    yield b""


def listing(
    fleet: Callable[[int], Iterator[Json]],
    devices_a_node: int,
    claim: Callable[[], ResourceClaim],
    size: Size,
    progress: Progress,
) -> Outcome:
    """All kinds at once, as a process lists them, then the snapshot and one decision."""
    with TemporaryDirectory() as folder:
        pages = Pages(Path(folder))
        nodes = size["devices"] // devices_a_node
        for number, resource in enumerate(KINDS):
            of_kind = (
                served(thing, n) for n, thing in enumerate(fleet(nodes)) if thing["kind"] == resource.kind
            )
            pages.write(resource, of_kind)
            progress(number + 1, len(KINDS) + 1)
        return asyncio.run(_listed(pages, claim()))


async def _listed(pages: Pages, claim: ResourceClaim) -> Outcome:
    store, lag = Store(Semantics()), Lag()
    queue: Queue[Unit] = Queue(base=1.0, cap=1.0, random=Random(0).random)
    intake = Intake(store, queue, [resource.kind for resource in KINDS], lambda _: None)
    client = Client(pages)
    began, spent = perf_counter(), process_time()
    async with lag.measured():
        jobs = [
            *(follow(client, resource, sink=intake.take, random=Random(0).random) for resource in KINDS),
            spare_the_collector(intake),
        ]
        tasks = [asyncio.create_task(job) for job in jobs]
        await intake.listed.wait()
        read = process_time()
        await build_ahead(store)
        world = store.snapshot()
        pictured = process_time()
    outcome = allocate([claim], world)  # not in the lag: a process decides in a thread what takes long
    assert isinstance(outcome, Granted)
    ended, clock = process_time(), perf_counter()
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    return Outcome([
        Figure("list to first decision", ended - spent - pages.seconds, "s"),
        Figure("by the clock", clock - began, "s"),
        Figure("read and applied", read - spent - pages.seconds, "s"),
        Figure("picture", pictured - read, "s"),
        Figure("decision", ended - pictured, "s"),
        lag.longest_hold("listing"),
        *lag.figures("listing"),
        Figure("listed", pages.bytes / 2**20, "MiB", ""),
    ])  # fmt: skip


WORKLOADS = [
    Workload(
        f"listing-{name}",
        f"from the pages of a server's listing to the first decision: {about}",
        partial(listing, *FLEETS[name]),
        {case: {"devices": devices} for case, devices in SIZES.items()},
        tiny={"devices": 208},
        repeats=2,
    )
    for name, about in (("gpus", "eight whole GPUs a node"), ("mig", "208 partitions a node"))
]
