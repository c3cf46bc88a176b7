"""A server to measure against: the embedded one in a process of its own, or a cluster made for that.

Everything that is created there is deleted again: by the next run, if this one is killed. On a cluster, nodes
are created too, so it should be one that nobody else uses.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from time import thread_time
from typing import NamedTuple, TypedDict, TypeVar

import msgspec
import numpy as np
import yaml

from perf.deciding import Wrong
from perf.fleets import mig
from perf.fleets.objects import Json, claim
from perf.results import ROOT
from perf.workload import Figure
from reconciler.aio.tasks import Heartbeat
from reconciler.api.objects.claims import FINALIZER
from reconciler.api.objects.meta import ObjectKey
from reconciler.cluster.client import Client
from reconciler.cluster.discovery import CLAIM, discover
from reconciler.cluster.kinds import NAMESPACE, NODE, POD, TEMPLATE, Resource, Served
from reconciler.cluster.transport import Request, Transport, refusal
from reconciler.errors import Conflict, Gone

WARM_UP = 10
"""One in so many claims, from the first, does not count: connections open, caches are built"""


class Pace(NamedTuple):
    """Of one burst of claims."""

    rate: float
    """Claims a second"""
    spent: float
    """Seconds of processor time of this process for a claim"""

    @classmethod
    def of(cls, done: Sequence[tuple[float, float]]) -> "Pace":
        """`done` is when each claim was done, by `perf_counter` and `process_time`: two or more, in order."""
        first = min(len(done) // WARM_UP, len(done) - 2)
        claims = len(done) - 1 - first
        (began, before), (ended, after) = done[first], done[-1]
        return cls(claims / (ended - began), (after - before) / claims)


EVERY = 0.005
"""Seconds between two looks. Whoever wants to run at some moment waits as long as the look next to it."""


class Lag:
    """Looks at the running loop, several times if need be."""

    def __init__(self) -> None:
        self._late: list[float] = []
        self._held = 0.0
        self._spent = 0.0

    @asynccontextmanager
    async def measured(self) -> AsyncIterator[None]:
        """Look as long as the block runs."""
        self._spent = thread_time()
        beats = asyncio.create_task(Heartbeat(self._beat, every=EVERY).run(), name="lag")
        await asyncio.sleep(0)
        try:
            yield
            await asyncio.sleep(EVERY)  # a stall at the very end counts, too
        finally:
            beats.cancel()
            await asyncio.wait([beats])

    def _beat(self, late: float) -> None:
        spent = thread_time()
        self._held = max(self._held, spent - self._spent)
        self._spent = spent
        self._late.append(late)

    def longest_hold(self, during: str) -> Figure:
        """Most processor time of the loop between two looks: that of its longest step, and at most EVERY
        more. Other processes do not count.
        """
        return Figure(f"{during}, longest hold", self._held * 1e3, "ms")

    def figures(self, during: str) -> list[Figure]:
        """The 99th percentile and the longest, in milliseconds."""
        late = np.array(self._late or [0.0]) * 1e3
        return [
            Figure(f"{during}, lag p99", float(np.percentile(late, 99)), "ms"),
            Figure(f"{during}, lag max", float(late.max()), "ms"),
        ]


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
        "perf.replica",
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
        response = await self._transport.send(Request("POST", path, query=dry, body=raw, timeout=seconds))
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


FILE = ROOT / "deploy/admission/announce-claims.yaml"
SPACE = "perf-announced"
"""The namespace"""
ANNOUNCED_LABEL = "dra-reconciler.io/announce-claims"
POLICY_SECONDS = 30.0
"""Seconds that a server has to apply a new policy"""


async def announced_namespace(made: Cluster) -> str:
    """A namespace in which claims are announced from now on; empty if the server has no such policies.

    Raises Wrong if they have no effect, or if somebody else has a namespace of the name.
    """
    for raw in yaml.safe_load_all(FILE.read_text(encoding="utf-8")):
        try:
            await made.create(raw)
        except Conflict:  # it is deployed here
            continue
        except Gone:
            return ""
    try:
        await made.create(_namespace())
    except Conflict as exc:
        raise Wrong(f"the namespace {SPACE} is there already: delete it, if it is not in use") from exc
    until = asyncio.get_running_loop().time() + POLICY_SECONDS
    while asyncio.get_running_loop().time() < until:
        tried = await made.try_out(
            in_namespace(claim("tried", [mig.partition("partition", "1g.5gb")]), SPACE)
        )
        if FINALIZER in tried["metadata"].get("finalizers", ()):
            return SPACE
        await asyncio.sleep(LOOK)
    raise Wrong(f"the policies of {FILE.name} have no effect in namespace {SPACE} after {POLICY_SECONDS:g} s")


def in_namespace(raw: Json, namespace: str) -> Json:
    """The same object in another namespace."""
    return {**raw, "metadata": {**raw["metadata"], "namespace": namespace}}


def _namespace() -> Json:
    return {
        "apiVersion": NAMESPACE.api_version,
        "kind": NAMESPACE.kind,
        "metadata": {"name": SPACE, "labels": {ANNOUNCED_LABEL: "true"}},
    }
