"""A server to measure against: the embedded one in a process of its own, or a cluster made for that.

Everything that is created there is deleted again. On a cluster, nodes are created too, so it should be
one that nobody else uses.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import TypedDict, TypeVar

from perf.fleets.objects import Json
from perf.machine import ROOT
from reconciler.api.objects.meta import ObjectKey
from reconciler.cluster.client import Client
from reconciler.cluster.discovery import discover
from reconciler.cluster.http import connect
from reconciler.cluster.kinds import NODE, POD, TEMPLATE, Resource, Served
from reconciler.cluster.transport import Request, Transport
from reconciler.errors import Gone

KUBECONFIG = "PERF_KUBECONFIG"
"""The variable by which the path of a kubeconfig reaches the process that measures"""
IN_FLIGHT = 32
ROOM = {"cpu": "256", "memory": "2Ti", "pods": "1000"}
AT_ONCE = (("gracePeriodSeconds", "0"),)
T = TypeVar("T")
R = TypeVar("R")


class Reach(TypedDict, total=False):
    """Keywords of `connect`, one of them."""

    server: str
    kubeconfig: str


@asynccontextmanager
async def server() -> AsyncIterator[Transport]:
    """A transport to the cluster that the environment names, else to an embedded server."""
    async with reach() as where, connect(**where) as transport:
        yield transport


@asynccontextmanager
async def reach() -> AsyncIterator[Reach]:
    """How to connect to that cluster or server, which is there while the block runs."""
    kubeconfig = os.environ.get(KUBECONFIG)
    if kubeconfig:
        yield {"kubeconfig": kubeconfig}
        return
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "perf.server",
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield {"server": (await process.stdout.readline()).decode().strip()}
    finally:
        process.stdin.close()
        await process.wait()


class Cluster:
    """What was created on a server, so that it can be deleted."""

    def __init__(self, transport: Transport, client: Client, served: Served) -> None:
        self._transport = transport
        self.client = client
        self.served = served
        self._created: list[tuple[Resource, ObjectKey]] = []

    async def create(self, raw: Json) -> Json:
        """Create one object."""
        resource = TEMPLATE if raw["kind"] == TEMPLATE.kind else self.served[raw["kind"]]
        made = await self.client.create(resource, raw)
        self._created.append(
            (resource, ObjectKey(raw["metadata"].get("namespace", ""), raw["metadata"]["name"]))
        )
        return made

    async def create_node(self, raw: Json) -> None:
        """Create a node as a kubelet reports it: with room for pods, and without the taint of a new node."""
        ready = {"type": "Ready", "status": "True"}
        await self.create(raw | {"status": {"allocatable": ROOM, "capacity": ROOM, "conditions": [ready]}})
        key = ObjectKey("", raw["metadata"]["name"])
        await self.client.patch(self.served[NODE.kind], key, {"spec": {"taints": None}})

    async def create_all(self, raws: Iterable[Json]) -> list[Json]:
        """Create many objects, several at a time."""
        return await in_flight(self.create, raws)

    async def clean_up(self) -> None:
        """Delete everything that was created. Claims go as soon as somebody frees what they hold."""
        await in_flight(self._delete, reversed(self._created))

    async def _delete(self, made: tuple[Resource, ObjectKey]) -> None:
        resource, key = made
        if resource.kind == POD.kind:  # where no kubelet runs, nobody else ends a bound pod
            await self._transport.send(
                Request("DELETE", resource.path(key), query=AT_ONCE, timeout=self.client.write_seconds)
            )
            return
        try:
            await self.client.delete(resource, key)
        except Gone:
            return


@asynccontextmanager
async def cluster(transport: Transport) -> AsyncIterator[Cluster]:
    """A cluster to create objects on. They are deleted at the end."""
    client = Client(transport)
    made = Cluster(transport, client, await discover(client))
    try:
        yield made
    finally:
        await made.clean_up()


async def in_flight(work: Callable[[T], Awaitable[R]], things: Iterable[T]) -> list[R]:
    """Do something for each, so many at once. Returns what came of each, in order."""
    limit = asyncio.Semaphore(IN_FLIGHT)

    async def one(thing: T) -> R:
        async with limit:
            return await work(thing)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(thing)) for thing in things]
    return [task.result() for task in tasks]
