"""A soak on an API server that is not embedded: what is made goes there, what it holds is copied here.

In place of kubelets and the garbage collector, this runs and ends pods, and deletes claims without a pod.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Never

from perf.fleets.objects import Json
from perf.live import AT_ONCE, LABEL, Cluster, cluster, labelled
from perf.soak_load import BEGAN
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.validation.kinds import ServedKind
from reconciler.api.validation.served_kinds import BUDGET, CLAIM, LEASE, NODE, POD, POD_GROUP
from reconciler.cluster.discovery import negotiate
from reconciler.cluster.kinds import BUDGET as BUDGETS
from reconciler.cluster.kinds import Resource
from reconciler.cluster.transport import Request, Transport
from reconciler.embedded import ApiServer
from reconciler.errors import Conflict, Gone, ReconcilerError
from reconciler.ha.campaign import LEASE_KIND

AT_A_TIME = 16
LOOK_SECONDS = 2.0
COPIED = (POD_GROUP, LEASE, CLAIM, POD)
"""Pods last: a claim whose pod is not among them has lost it"""
HIGH = Resource("PriorityClass", "scheduling.k8s.io", "v1", "priorityclasses", namespaced=False)


class Mirror(ApiServer):
    """What the server holds, as far as a soak asks. Changes are sent there, too."""

    def __init__(self, transport: Transport, made: Cluster, groups: Resource) -> None:
        super().__init__()
        self._transport, self._made = transport, made
        self._resources = {
            **{kind: made.served[kind.kind] for kind in (CLAIM, POD)},
            BUDGET: BUDGETS,
            LEASE: LEASE_KIND,
            POD_GROUP: groups,
        }
        self._unsent: asyncio.Queue[Callable[[], Awaitable[Any]]] = asyncio.Queue()
        self._versions: dict[tuple[str, str], str] = {}
        """Kind and key of what the server was seen to hold -> its version"""
        self.refused: Counter[str] = Counter()

    def load(self, objects: Iterable[Json]) -> None:
        """See `ApiServer`."""
        for one in objects:
            super().load([one])
            self._unsent.put_nowait(partial(self._create, one))

    def delete(self, kind: ServedKind, namespace: str, name: str, **_: Any) -> None:
        """See `ApiServer`. Here it ends once the server has ended it."""
        self._unsent.put_nowait(partial(self._remove, kind, f"{namespace}/{name}"))

    def update(self, kind: ServedKind, namespace: str, name: str, *args: Any, subresource: str = "") -> Json:
        """See `ApiServer`."""
        found = super().update(kind, namespace, name, *args, subresource=subresource)
        if kind is BUDGET:
            self._unsent.put_nowait(partial(self._status, kind, f"{namespace}/{name}", found["status"]))
        return found

    async def sent(self) -> None:
        """Return once everything was sent."""
        await self._unsent.join()

    async def send(self) -> Never:
        """Send what is to be sent, until cancelled."""
        while True:
            work = await self._unsent.get()
            try:
                await work()
            except Gone:
                pass
            except ReconcilerError as exc:
                self.refused[str(exc)[:300]] += 1
            finally:
                self._unsent.task_done()

    async def follow(self) -> Never:
        """Copy, and do what kubelets and the garbage collector do, until cancelled."""
        while True:
            with suppress(ReconcilerError):
                for kind in COPIED:
                    await self._copy(kind)
                self._run_and_end()
            await asyncio.sleep(LOOK_SECONDS)

    async def clean_up(self) -> None:
        """Delete what a soak made of kinds that `Cluster` does not delete."""
        for kind in (POD_GROUP, BUDGET):
            path, query = self._resources[kind].within("default"), [("labelSelector", f"{LABEL}=true")]
            await self._transport.send(Request("DELETE", path, query=query, timeout=60.0))
        groups = self._resources[POD_GROUP]
        for one in (await self._made.client.fetch(groups.within("default")))["items"]:
            await self._release(f"default/{one['metadata']['name']}")

    async def _create(self, raw: Json) -> None:
        if raw["kind"] == NODE.kind:
            await self._made.create_node(raw)
        elif raw["kind"] == POD_GROUP.kind:
            groups = self._resources[POD_GROUP]
            await self._made.client.create(groups, {**labelled(raw), "apiVersion": groups.api_version})
        elif raw["kind"] == BUDGET.kind:
            made = await self._made.client.create(self._resources[BUDGET], labelled(raw))
            await self._status(BUDGET, f"default/{made['metadata']['name']}", raw["status"])
        else:
            await self._made.create(raw)

    async def _remove(self, kind: ServedKind, key: str) -> None:
        path = self._resources[kind].path(ObjectKey(*key.split("/")))
        await self._transport.send(Request("DELETE", path, query=AT_ONCE, timeout=60.0))

    async def _status(self, kind: ServedKind, key: str, status: Json) -> None:
        resource, of = self._resources[kind], ObjectKey(*key.split("/"))
        await self._made.client.patch(resource, of, {"status": status}, subresource="status")

    async def _release(self, key: str) -> None:
        """Let a group go whose pods are gone: what a controller does there."""
        groups, of = self._resources[POD_GROUP], ObjectKey(*key.split("/"))
        with suppress(Gone):
            await self._made.client.patch(groups, of, {"metadata": {"finalizers": None}})

    async def _copy(self, kind: ServedKind) -> None:
        before = {of for of in self._versions if of[0] == kind.kind}
        for one in (await self._made.client.fetch(self._resources[kind].everywhere))["items"]:
            metadata = one["metadata"]
            key, version = f"{metadata['namespace']}/{metadata['name']}", metadata["resourceVersion"]
            before.discard((kind.kind, key))
            if self._versions.get((kind.kind, key)) != version:
                self._versions[kind.kind, key] = version
                self.store.put(kind, key, one)
        for of in before:
            del self._versions[of]
            if (gone := self.store[kind].get(of[1])) is not None:
                self.store.remove(gone)

    def _run_and_end(self) -> None:
        uids = set()
        for record in self.store[POD].scan(""):
            uids.add(record.object["metadata"]["uid"])
            if "deletionTimestamp" in record.object["metadata"]:
                self.delete(POD, *record.key.split("/"))
            elif record.object["spec"].get("nodeName") and record.object["status"]["phase"] == "Pending":
                running = {"phase": "Running", "startTime": BEGAN}
                self._unsent.put_nowait(partial(self._status, POD, record.key, running))
        for record in self.store[POD_GROUP].scan(""):
            if "deletionTimestamp" in record.object["metadata"]:
                self._unsent.put_nowait(partial(self._release, record.key))
        for record in self.store[CLAIM].scan(""):
            owners = record.object["metadata"].get("ownerReferences", ())
            if owners and not any(one["uid"] in uids for one in owners):
                self.delete(CLAIM, *record.key.split("/"))


@asynccontextmanager
async def mirrored(transport: Transport) -> AsyncIterator[Mirror]:
    """A copy of a server that was made for this. What is created there is deleted in the end."""
    async with cluster(transport) as made:
        mirror = Mirror(transport, made, await negotiate(made.client, POD_GROUP.kind))
        await mirror.clean_up()
        with suppress(Conflict):
            await made.client.create(HIGH, {"metadata": {"name": "high"}, "value": 1000})
        tasks = [asyncio.create_task(mirror.send()) for _ in range(AT_A_TIME)]
        tasks.append(asyncio.create_task(mirror.follow()))
        try:
            yield mirror
        finally:
            for one in tasks:
                one.cancel()
            await asyncio.wait(tasks)
            await mirror.clean_up()
