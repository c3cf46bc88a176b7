"""What watches of pods and claims show of pods with one claim each, and when.

Lines are read here for the few fields that matter: reading whole objects takes ten times as long, on a
processor that those who are measured may need, and what is seen late counts as done late.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from time import perf_counter

import msgspec
from msgspec import Struct

from perf.deciding import Wrong
from perf.live import Cluster
from reconciler.api.objects.claims import FINALIZER
from reconciler.api.objects.core import GATE
from reconciler.api.objects.meta import ObjectKey
from reconciler.cluster.discovery import CLAIM
from reconciler.cluster.kinds import POD, Resource

IDLE = 90.0
"""Seconds of silence after which a watch counts as broken: servers send a bookmark about every minute"""


class _Named(Struct, frozen=True):
    name: str = ""
    kind: str = ""


class _Metadata(Struct, frozen=True, rename="camel"):
    name: str
    namespace: str = ""
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[_Named, ...] = ()


class _Used(Struct, frozen=True, rename="camel"):
    """A claim that a pod uses: in its spec, or in its status by what was made from a template."""

    name: str
    resource_claim_name: str | None = None


class _PodSpec(Struct, frozen=True, rename="camel"):
    node_name: str = ""
    scheduling_gates: tuple[_Named, ...] = ()
    resource_claims: tuple[_Used, ...] = ()


class _PodStatus(Struct, frozen=True, rename="camel"):
    resource_claim_statuses: tuple[_Used, ...] = ()


class _Pod(Struct, frozen=True):
    metadata: _Metadata
    spec: _PodSpec
    status: _PodStatus = _PodStatus()


class _Device(Struct, frozen=True):
    driver: str
    pool: str
    device: str


class _Devices(Struct, frozen=True):
    results: tuple[_Device, ...] = ()


class _Allocation(Struct, frozen=True):
    devices: _Devices = _Devices()


class _ClaimStatus(Struct, frozen=True, rename="camel"):
    allocation: _Allocation | None = None
    reserved_for: tuple[_Named, ...] = ()


class _Claim(Struct, frozen=True):
    metadata: _Metadata
    status: _ClaimStatus = _ClaimStatus()


class _Event(Struct, frozen=True):
    type: str
    object: msgspec.Raw


_event = msgspec.json.Decoder(_Event).decode
_KINDS: Mapping[str, type[_Pod | _Claim]] = {POD.kind: _Pod, CLAIM.kind: _Claim}


class Sightings:
    """The moments of each pod by its name; see `perf.phases.PHASES`. Times are those of `perf_counter`."""

    def __init__(self) -> None:
        self.of: dict[str, dict[str, float]] = {}
        self.devices: dict[ObjectKey, list[str]] = {}
        """What each claim was seen to have"""
        self._users: dict[ObjectKey, str] = {}
        """Claim -> the pod that names it"""
        self._news = asyncio.Event()

    async def follow(self, made: Cluster, resource: Resource) -> None:
        """Take note of all pods or claims, and of what a watch shows from now on. Raises Wrong if it ends."""
        listed = await made.client.fetch(resource.everywhere)
        for item in listed["items"]:
            self._take(msgspec.convert(item, _KINDS[resource.kind]))
        query = [("resourceVersion", listed["metadata"]["resourceVersion"]), ("allowWatchBookmarks", "true")]
        async with made.client.watch(resource, query=query, idle=IDLE) as lines:
            async for line in lines:
                event = _event(line)
                if event.type in ("ADDED", "MODIFIED"):
                    self._take(msgspec.json.decode(event.object, type=_KINDS[resource.kind]))
        raise Wrong(f"the watch of {resource.plural} ended")

    @property
    def binds(self) -> bool:
        """Whether somebody has bound a pod yet."""
        return any("bound" in moments for moments in self.of.values())

    def sends(self, pod: str) -> None:
        """The request that creates a pod is sent now."""
        self._note(pod, "sent")

    async def wait(self, pod: str, moment: str, seconds: float) -> float:
        """When it happened to a pod. Raises TimeoutError."""
        async with asyncio.timeout(seconds):
            while moment not in self.of.get(pod, {}):
                self._news.clear()
                await self._news.wait()
        return self.of[pod][moment]

    async def allocated(self, claim: ObjectKey, seconds: float) -> None:
        """Wait until a claim has devices. Raises TimeoutError."""
        async with asyncio.timeout(seconds):
            while claim not in self.devices:
                self._news.clear()
                await self._news.wait()

    def _take(self, thing: _Pod | _Claim) -> None:
        if isinstance(thing, _Pod):
            self._pod(thing)
        else:
            self._claim(thing)
        self._news.set()

    def _pod(self, pod: _Pod) -> None:
        name, namespace = pod.metadata.name, pod.metadata.namespace
        self._note(name, "shown")
        made = {used.name: used.resource_claim_name for used in pod.status.resource_claim_statuses}
        names = [used.resource_claim_name or made.get(used.name) for used in pod.spec.resource_claims]
        claims = [ObjectKey(namespace, claim) for claim in names if claim]
        self._users.update(dict.fromkeys(claims, name))
        if all(names):
            self._note(name, "named")
        if all(names) and all(claim in self.devices for claim in claims):  # they had them before
            self._note(name, "marked")
            self._note(name, "allocated")
        if all(gate.name != GATE for gate in pod.spec.scheduling_gates):
            self._note(name, "ungated")
        if pod.spec.node_name:
            self._note(name, "bound")

    def _claim(self, claim: _Claim) -> None:
        metadata, allocation = claim.metadata, claim.status.allocation
        key = ObjectKey(metadata.namespace, metadata.name)
        if allocation is not None:
            results = allocation.devices.results
            self.devices[key] = [f"{one.driver}/{one.pool}/{one.device}" for one in results]
        # A claim that was made from a template is shown before its pod names it.
        owner = next((owner.name for owner in metadata.owner_references if owner.kind == POD.kind), None)
        name = self._users.get(key) or owner
        if name is None:
            return
        if FINALIZER in metadata.finalizers:
            self._note(name, "marked")
        if allocation is not None:
            self._note(name, "allocated")
        if claim.status.reserved_for:
            self._note(name, "reserved")

    def _note(self, pod: str, moment: str) -> None:
        self.of.setdefault(pod, {}).setdefault(moment, perf_counter())


@asynccontextmanager
async def watching(made: Cluster) -> AsyncIterator[Sightings]:
    """Watches of all pods and claims, by the client of the cluster, while the block runs."""
    seen = Sightings()
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(seen.follow(made, kind), name=f"{kind.kind} watch")
            for kind in (POD, made.served[CLAIM.kind])
        ]
        yield seen
        for task in tasks:
            task.cancel()
