"""A server to measure against: the embedded one in a process of its own, or a cluster made for that.

Everything that is created there is deleted again: by the next run, if this one is killed. On a cluster, nodes
are created too, so it should be one that nobody else uses.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from typing import TypedDict, TypeVar

import msgspec

from perf.deciding import Wrong
from perf.fleets.objects import Json
from perf.machine import ROOT
from reconciler.api.objects.meta import ObjectKey
from reconciler.cluster.client import Client
from reconciler.cluster.discovery import CLAIM, discover
from reconciler.cluster.kinds import NAMESPACE, NODE, POD, TEMPLATE, Resource, Served
from reconciler.cluster.transport import Request, Transport, refusal
from reconciler.errors import Gone

KUBECONFIG = "PERF_KUBECONFIG"
"""The variable by which the path of a kubeconfig reaches the process that measures"""
IN_FLIGHT = 32
ROOM = {"cpu": "256", "memory": "2Ti", "pods": "1000"}
AT_ONCE = (("gracePeriodSeconds", "0"),)
LABEL = "dra-reconciler.io/perf"
"""On everything that is created, so that a run that was killed can be cleaned up after"""
_ADMISSION = "admissionregistration.k8s.io"
POLICY = Resource("MutatingAdmissionPolicy", _ADMISSION, "v1", "mutatingadmissionpolicies", namespaced=False)
BINDING = Resource(
    "MutatingAdmissionPolicyBinding", _ADMISSION, "v1", "mutatingadmissionpolicybindings", namespaced=False
)
CONFIG_MAP = Resource("ConfigMap", "", "v1", "configmaps", namespaced=True)
MADE = {one.kind: one for one in (TEMPLATE, NAMESPACE, CONFIG_MAP, POLICY, BINDING)}
"""Kinds that are created here and that discovery does not look for"""
DELETED = (POD.kind, CLAIM.kind, *MADE, "ResourceSlice", "DeviceClass", NODE.kind)
"""What may be created, in the order of its end"""
PATIENCE = 60.0
"""Seconds for what an earlier run left behind to go"""
LOOK = 0.2
"""Seconds between two looks whether it is gone"""
T = TypeVar("T")
R = TypeVar("R")


class Reach(TypedDict, total=False):
    """Keywords of `connect`, one of them."""

    server: str
    kubeconfig: str


@asynccontextmanager
async def reach() -> AsyncIterator[Reach]:
    """How to connect to the cluster that the environment names, else to an embedded server of our own."""
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
    """Creates objects with a label on a server, and deletes all that have it."""

    def __init__(self, transport: Transport, client: Client, served: Served) -> None:
        self._transport = transport
        self.client = client
        self.served = served

    async def create(self, raw: Json) -> Json:
        """Create one object."""
        return await self.client.create(self._resource(raw["kind"]), labelled(raw))

    async def try_out(self, raw: Json) -> Json:
        """What the server would make of an object that it is asked to create. Nothing is created."""
        path = self._resource(raw["kind"]).within(raw["metadata"].get("namespace", ""))
        dry = (("dryRun", "All"),)
        seconds = self.client.write_seconds
        response = await self._transport.send(
            Request("POST", path, query=dry, body=msgspec.json.encode(raw), timeout=seconds)
        )
        if response.status != HTTPStatus.CREATED:
            raise refusal("POST", path, response)
        return dict(msgspec.json.decode(response.body))

    async def create_node(self, raw: Json) -> None:
        """Create a node as a kubelet reports it: with room for pods, and without the taint of a new node."""
        ready = {"type": "Ready", "status": "True"}
        await self.create(raw | {"status": {"allocatable": ROOM, "capacity": ROOM, "conditions": [ready]}})
        key = ObjectKey("", raw["metadata"]["name"])
        await self.client.patch(self.served[NODE.kind], key, {"spec": {"taints": None}})

    async def create_all(self, raws: Iterable[Json]) -> list[Json]:
        """Create many objects, several at a time."""
        return await in_flight(self.create, raws)

    async def clean_up(self) -> int:
        """Delete everything with the label. Claims go as soon as somebody frees what they hold.

        Returns how many objects there were.
        """
        count = 0
        for kind in DELETED:
            keys = await self.labelled(kind)
            await in_flight(partial(self._delete, self._resource(kind)), keys)
            count += len(keys)
        return count

    async def start_afresh(self) -> None:
        """Delete what an earlier run left behind, and wait until it is gone. Raises Wrong if it stays."""
        if not (count := await self.clean_up()):
            return
        print(f"deleting {count} objects that an earlier run left behind", file=sys.stderr)
        until = asyncio.get_running_loop().time() + PATIENCE
        while left := await self.labelled(CLAIM.kind) or await self.labelled(NAMESPACE.kind):
            if asyncio.get_running_loop().time() > until:
                raise Wrong(
                    f"{len(left)} claims or namespaces of an earlier run stay, such as {left[0]}: start "
                    "kube-controller-manager, which frees them, or remove their finalizers"
                )
            await asyncio.sleep(LOOK)

    async def labelled(self, kind: str) -> list[ObjectKey]:
        """The objects of a kind that have the label. Not every server has admission policies."""
        query = [("labelSelector", f"{LABEL}=true")]
        try:
            found = await self.client.fetch(self._resource(kind).everywhere, query=query)
        except Gone:
            if kind not in (POLICY.kind, BINDING.kind):
                raise
            return []
        metadata = [item["metadata"] for item in found["items"]]
        return [ObjectKey(one.get("namespace", ""), one["name"]) for one in metadata]

    def _resource(self, kind: str) -> Resource:
        return MADE.get(kind) or self.served[kind]

    async def _delete(self, resource: Resource, key: ObjectKey) -> None:
        if resource.kind == POD.kind:  # where no kubelet runs, nobody else ends a bound pod
            await self._transport.send(
                Request("DELETE", resource.path(key), query=AT_ONCE, timeout=self.client.write_seconds)
            )
            return
        try:
            await self.client.delete(resource, key)
        except Gone:
            return


def labelled(raw: Json) -> Json:
    """The object, or the `spec` of a template, with the label of all that is deleted in the end."""
    metadata = raw.get("metadata", {})
    return {**raw, "metadata": {**metadata, "labels": {**metadata.get("labels", {}), LABEL: "true"}}}


@asynccontextmanager
async def cluster(transport: Transport) -> AsyncIterator[Cluster]:
    """A cluster to create objects on. They are deleted at the end, and what is left of earlier runs now."""
    client = Client(transport)
    made = Cluster(transport, client, await discover(client))
    await made.start_afresh()
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
