"""What is counted: decisions, objects, requests and watches."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from reconciler.cluster.kinds import POD, Resource
from reconciler.cluster.transport import Request, Response, WatchRequest
from reconciler.control.ownership import Ownership
from reconciler.errors import Relist, Retry, Undecided
from reconciler.ha.shard import parse_shard
from reconciler.operations.metrics.devices import OBJECTS_AT_ONCE, ObjectCounts
from reconciler.operations.metrics.meters import Metered, Meters
from tests.tools.small_fleet import DRIVER, claim, device_class, devices, held, node, pod
from tests.tools.unit_pictures import intake, put


def test_the_latest_decision_of_each_bucket_is_named_and_every_one_counts():
    meters = Meters(process=False)
    for number in range(40):
        meters.answered("", 0.0002, f"fast-{number}")
    meters.answered("", 0.2, "slow-0")
    named = {
        sample.labels["le"]: sample.exemplar.labels["decision_id"]
        for metric in meters.registry.collect()
        for sample in metric.samples
        if sample.exemplar
    }
    assert named == {"0.00025": "fast-39", "0.25": "slow-0"}
    name = "dra_reconciler_decision_duration_seconds_count"
    assert meters.registry.get_sample_value(name, {"result": "granted"}) == 41


def created(raw: dict[str, Any], at: str) -> dict[str, Any]:
    return {**raw, "metadata": {**raw["metadata"], "creationTimestamp": at}}


def allocated(name: str, driver: str = DRIVER) -> dict[str, Any]:
    return {**claim(name, managed=False), "status": held(driver, "n", name)}


async def counted(*objects: dict[str, Any], **ours: Any) -> ObjectCounts:
    found = intake(*objects)
    found.listed.set()
    counts = ObjectCounts(found, Ownership(alone=True, **ours))
    await counts.refresh()
    return counts


async def test_claims_by_state_and_the_oldest_that_is_to_be_allocated():
    """An older one is another allocator's, one is allocated, and the pod of one needs it."""
    counts = await counted(
        created(claim("theirs", managed=False), "2026-01-01T00:00:00Z"),
        created(allocated("done"), "2026-01-01T00:00:00Z"),
        created(claim("new"), "2026-01-01T02:00:00Z"),
        created(claim("gated", managed=False), "2026-01-01T01:00:00Z"),
        pod("p", "gated"),
    )
    assert counts.claims == {"allocated": 1, "unallocated": 3}
    assert counts.oldest == 1767229200.0  # 2026-01-01T01:00:00Z


async def test_no_claims_at_all():
    counts = await counted(node("n"))
    assert (counts.claims, counts.oldest) == ({"allocated": 0, "unallocated": 0}, None)


async def test_claims_of_another_shard_are_counted_there():
    """So the sum over all shards is the number of claims."""
    objects = [device_class(), device_class("nic", "nic.example.com")]
    objects += [claim("a"), claim("b", device_class="nic"), allocated("c"), allocated("d", "nic.example.com")]
    first = await counted(*objects, shard=parse_shard(f"driver={DRIVER}"))
    other = await counted(*objects, shard=parse_shard("driver=nic.example.com"))
    assert first.claims == other.claims == {"allocated": 1, "unallocated": 1}


async def test_slices_by_how_they_select_nodes():
    per_device = devices("x", "d0")
    del per_device["spec"]["nodeName"]
    per_device["spec"] |= {"perDeviceNodeSelection": True, "devices": [{"name": "d0", "allNodes": True}]}
    everywhere = devices("y", "d0")
    del everywhere["spec"]["nodeName"]
    everywhere["spec"]["allNodes"] = True
    counts = await counted(per_device, everywhere, devices("n", "d0"), devices("m", "d0"))
    assert counts.slices == {"per_device": 1, "all_nodes": 1, "node_name": 2}


async def test_nothing_is_counted_before_all_objects_are_listed():
    found = intake(claim("a"))
    counts = ObjectCounts(found, Ownership(alone=True))
    await counts.refresh()
    assert counts.claims == {}


async def test_claims_that_come_during_the_count_are_counted_next_time():
    found = intake(*(claim(f"c{number}") for number in range(OBJECTS_AT_ONCE + 1)))
    found.listed.set()
    counts = ObjectCounts(found, Ownership(alone=True))
    counting = asyncio.create_task(counts.refresh())
    await asyncio.sleep(0)  # it has counted the first part
    put(found, claim("late"))
    await counting
    assert counts.claims["unallocated"] == OBJECTS_AT_ONCE + 1
    await counts.refresh()
    assert counts.claims["unallocated"] == OBJECTS_AT_ONCE + 2


CLAIMS = Resource("ResourceClaim", "resource.k8s.io", "v1", "resourceclaims", namespaced=True)
CLAIM = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/a"


class Scripted:
    """Answers what it is told to."""

    def __init__(self, *answers: int | BaseException) -> None:
        self.answers = list(answers)

    async def send(self, _: Request) -> Response:
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return Response(answer, {}, b"{}")

    @asynccontextmanager
    async def stream(self, _: WatchRequest) -> AsyncIterator[AsyncIterator[bytes]]:
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer

        async def lines() -> AsyncIterator[bytes]:
            for _ in range(int(answer)):
                await asyncio.sleep(1)
                yield b"{}"

        yield lines()


def metered(*answers: int | BaseException) -> tuple[Metered, Meters]:
    meters = Meters(process=False)
    claims = Resource("ResourceClaim", "resource.k8s.io", "v1", "resourceclaims", namespaced=True)
    clock = asyncio.get_running_loop().time
    return Metered(Scripted(*answers), meters, clock, watched=[POD, claims]), meters


def requests_counted(meters: Meters, **labels: str) -> float | None:
    return meters.registry.get_sample_value("dra_reconciler_api_requests_total", labels)


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        (200, "ok"),
        (201, "ok"),
        (401, "denied"),
        (403, "denied"),
        (404, "not_found"),
        (409, "conflict"),
        (410, "expired"),
        (422, "rejected"),
        (429, "busy"),
        (500, "server_error"),
        (503, "busy"),
        (Retry("away"), "unreachable"),
        (Undecided("no answer"), "unanswered"),
        (asyncio.CancelledError(), "cancelled"),
    ],
)
async def test_every_end_of_a_request_has_a_name(answer: int | BaseException, result: str):
    transport, meters = metered(answer)
    asked = transport.send(Request("PATCH", f"{CLAIM}/status", timeout=1))
    if isinstance(answer, BaseException):
        with pytest.raises(type(answer)):
            await asked
    else:
        assert (await asked).status == answer
    assert requests_counted(meters, verb="patch", resource="resourceclaims/status", result=result) == 1
    assert transport.answers == 1


@pytest.mark.parametrize(
    ("method", "path", "verb", "resource"),
    [
        ("GET", "/api/v1/pods", "list", "pods"),
        ("GET", CLAIM, "get", "resourceclaims"),
        ("PATCH", CLAIM, "patch", "resourceclaims"),
        ("PATCH", "/api/v1/namespaces/default/pods/p", "patch", "pods"),
        ("POST", "/api/v1/namespaces/default/events", "create", "events"),
        ("PUT", "/apis/coordination.k8s.io/v1/namespaces/x/leases/l", "update", "leases"),
        ("DELETE", CLAIM, "delete", "resourceclaims"),
        ("GET", "/version", "get", "discovery"),
        ("GET", "/apis/resource.k8s.io/v1", "get", "discovery"),
        ("GET", "/apis/example.com/v1/widgets", "list", "other"),
        ("PATCH", "/api/v1/namespaces/default/pods/p/odd", "patch", "other"),
    ],
)
async def test_names_are_those_of_kubernetes_and_bounded(method: str, path: str, verb: str, resource: str):
    transport, meters = metered(200)
    await transport.send(Request(method, path, timeout=1))
    assert requests_counted(meters, verb=verb, resource=resource, result="ok") == 1


async def watch(transport: Metered, fail: BaseException | None = None) -> None:
    async with transport.stream(WatchRequest("/api/v1/pods", idle=1)) as lines:
        async for _ in lines:
            if fail is not None:
                raise fail


def restarts(meters: Meters, reason: str) -> float | None:
    labels = {"kind": "Pod", "reason": reason}
    return meters.registry.get_sample_value("dra_reconciler_watch_restarts_total", labels)


async def test_a_watch_that_follows_another_says_how_that_ended():
    transport, meters = metered(1, 1, Retry("refused"), 1)
    await watch(transport)
    assert (restarts(meters, "ended"), restarts(meters, "failed")) == (None, None)
    with pytest.raises(Relist):
        await watch(transport, fail=Relist("too old"))
    assert restarts(meters, "ended") == 1
    with pytest.raises(Retry):
        await watch(transport)
    await watch(transport)
    assert (restarts(meters, "ended"), restarts(meters, "failed")) == (1, 2)


async def test_pages_of_one_listing_count_once():
    transport, meters = metered(200, 200, 500)
    await transport.send(Request("GET", "/api/v1/pods", query=[("limit", "1")], timeout=1))
    await transport.send(Request("GET", "/api/v1/pods", query=[("limit", "1"), ("continue", "x")], timeout=1))
    await transport.send(Request("GET", "/api/v1/pods", query=[("limit", "1")], timeout=1))
    assert meters.registry.get_sample_value("dra_reconciler_listings_total", {"kind": "Pod"}) == 1
