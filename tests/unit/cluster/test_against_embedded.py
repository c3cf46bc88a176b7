"""Client, watch and writer against the embedded API server: keeps the scripted one honest."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from reconciler.api.objects.changes import Changed, Listed, Notice, Removed, Replaced
from reconciler.api.objects.claims import (
    FINALIZER,
    AllocatedDevice,
    Allocation,
    DeviceAllocation,
    ResourceClaim,
)
from reconciler.api.objects.core import GATE, Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.plan import Plan
from reconciler.cluster.client import Client
from reconciler.cluster.discovery import discover
from reconciler.cluster.http import connect
from reconciler.cluster.kinds import Served
from reconciler.cluster.watch import Pace, follow
from reconciler.cluster.writer import Withdrawals, Writer
from reconciler.embedded import ApiServer, serve
from reconciler.errors import Conflict, Gone, Rejected
from tests.tools.patience import PATIENCE

pytestmark = pytest.mark.loopback

KEY = ObjectKey("default", "c")
QUICK = Pace(base=0.01, cap=0.05)


def claim(name: str = "c", **metadata: Any) -> dict[str, Any]:
    parameters = {"kept": None, "list": [None, {"x": None}]}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default", **metadata},
        "spec": {
            "devices": {
                "requests": [{"name": "r", "exactly": {"deviceClassName": "gpu.example.com"}}],
                "config": [{"opaque": {"driver": "gpu.example.com", "parameters": parameters}}],
            }
        },
    }


@asynccontextmanager
async def cluster() -> AsyncIterator[tuple[ApiServer, Client, Served, Writer]]:
    api = ApiServer()
    async with serve(api) as url, connect(server=url) as transport:
        client = Client(transport)
        served = await discover(client)
        now = datetime(2026, 3, 1, tzinfo=UTC)
        writer = Writer(client, served, withdrawals=Withdrawals(), now=lambda: now)
        yield api, client, served, writer


async def read(writer: Writer, key: ObjectKey = KEY) -> ResourceClaim:
    found = await writer.read_claim(key)
    assert found is not None
    return found


def plan_for(found: ResourceClaim) -> Plan:
    device = AllocatedDevice(request="r", driver="gpu.example.com", pool="p", device="d-0")
    config = [{"source": "FromClaim", "opaque": found.spec.devices.config[0].opaque}]
    devices = DeviceAllocation.model_validate({"results": (device,), "config": config})
    version = found.metadata.resource_version
    return Plan(found.key, found.metadata.uid, version, "n", Allocation(devices=devices))


async def until(wanted: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not wanted():  # noqa: ASYNC110 - a sink is a plain callable and sets no event
            await asyncio.sleep(0.005)


@asynccontextmanager
async def following(
    client: Client, served: Served, kind: str = "ResourceClaim"
) -> AsyncIterator[list[Notice]]:
    told: list[Notice] = []

    def take(change: Notice) -> None:
        if told or isinstance(change, Replaced | Listed):  # objects of the first may come before
            told.append(change)

    work = follow(client, served[kind], sink=take, random=random.Random(1).random, pace=QUICK)
    task = asyncio.create_task(work)
    try:
        yield told
    finally:
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()


async def test_a_claim_is_allocated_withdrawn_and_allocated_again():
    async with cluster() as (api, client, served, writer):
        api.load([claim(finalizers=["example.com/other"])])
        before = await read(writer)
        written = await writer.write(plan_for(before), before)
        assert written == await read(writer)
        assert written.metadata.finalizers == ("example.com/other", FINALIZER)
        assert written.allocation is not None
        assert written.allocation.allocation_timestamp == "2026-03-01T00:00:00Z"
        raw = await client.get(served["ResourceClaim"], KEY)
        stored = raw["status"]["allocation"]["devices"]["config"][0]["opaque"]["parameters"]
        assert stored == {"kept": None, "list": [None, {"x": None}]}

        left = await writer.withdraw(written)
        assert (left.allocation, left.metadata.finalizers) == (None, ("example.com/other",))
        again = await writer.write(plan_for(left), left)
        assert again.allocation is not None


async def test_whoever_decides_from_an_old_version_gets_a_conflict():
    async with cluster() as (api, _, _, writer):
        api.load([claim()])
        before = await read(writer)
        written = await writer.write(plan_for(before), before)
        with pytest.raises(Conflict):
            await writer.write(plan_for(before), before)
        with pytest.raises(Conflict):
            await writer.withdraw(written.model_copy(update={"metadata": before.metadata}))
        assert await read(writer) == written


async def test_an_allocation_that_the_server_finds_invalid_is_rejected():
    async with cluster() as (api, _, _, writer):
        api.load([claim()])
        before = await read(writer)
        plan = plan_for(before)
        device = plan.allocation.devices.results[0].model_copy(update={"request": "unknown"})
        bad = Allocation(devices=DeviceAllocation(results=(device,)))
        with pytest.raises(Rejected, match="request"):
            await writer.write(Plan(plan.claim, plan.uid, plan.resource_version, "n", bad), before)
        held = await read(writer)
        assert (held.allocation, held.metadata.finalizers) == (None, (FINALIZER,))


async def test_a_deleted_claim_stays_until_it_is_released():
    async with cluster() as (api, client, served, writer):
        api.load([claim()])
        before = await read(writer)
        await writer.write(plan_for(before), before)
        await client.delete(served["ResourceClaim"], KEY)
        deleted = await read(writer)
        assert deleted.deleting
        await writer.release(deleted)
        assert await writer.read_claim(KEY) is None
        with pytest.raises(Gone):
            await writer.release(deleted)


async def test_a_gated_pod_is_set_free_once():
    gates = [{"name": "example.com/other"}, {"name": GATE}]
    raw = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"schedulingGates": gates, "containers": [{"name": "c", "image": "i", "workingDir": "/w"}]},
    }
    async with cluster() as (api, client, served, writer):
        api.load([raw])
        async with following(client, served, "Pod") as told:
            await until(lambda: bool(told))
        assert isinstance(told[0], Replaced)
        pod = told[0].objects[0]
        assert isinstance(pod, Pod)
        free = await writer.ungate(pod)
        assert [gate.name for gate in free.spec.scheduling_gates] == ["example.com/other"]
        with pytest.raises(Conflict):
            await writer.ungate(pod)
        stored = await client.get(served["Pod"], pod.key)
        assert stored["spec"]["containers"][0]["workingDir"] == "/w"


async def test_the_watch_tells_what_happens():
    async with cluster() as (api, client, served, writer):
        api.load([claim("a"), claim("b")])
        async with following(client, served) as told:
            await until(lambda: bool(told))
            before = await read(writer, ObjectKey("default", "a"))
            written = await writer.write(plan_for(before), before)
            api.load([claim("c")])
            await client.delete(served["ResourceClaim"], ObjectKey("default", "b"))
            gone = Removed("ResourceClaim", ObjectKey("default", "b"))
            await until(lambda: gone in told)
    first, *rest = told
    assert isinstance(first, Replaced)
    assert [found.metadata.name for found in first.objects] == ["a", "b"]
    changed = [change.object for change in rest if isinstance(change, Changed)]
    assert [found.metadata.name for found in changed] == ["a", "a", "c"]
    assert changed[1] == written


async def test_a_server_that_forgot_its_history_is_listed_again():
    async with cluster() as (api, client, served, _):
        api.load([claim("a")])
        async with following(client, served) as told:
            await until(lambda: bool(told))
            api.load([claim("b")])
            await until(lambda: len(told) == 2)
        assert isinstance(told[-1], Changed)
        api.compact()
        api.load([claim("c")])
        async with following(client, served) as told:
            await until(lambda: bool(told))
        assert isinstance(told[0], Replaced)
        assert [found.metadata.name for found in told[0].objects] == ["a", "b", "c"]


async def test_a_listing_of_many_pages_is_complete():
    async with cluster() as (api, client, served, _):
        api.load([claim(f"c-{number:04}") for number in range(1201)])
        pages = [page async for page in client.list_pages(served["ResourceClaim"], limit=500)]
        assert [len(page.items) for page in pages] == [500, 500, 201]
        async with following(client, served) as told:
            await until(lambda: bool(told))
        assert isinstance(told[0], Replaced)
        assert len(told[0].objects) == 1201
        assert told[0].refused == ()
