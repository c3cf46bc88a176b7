"""What the counting transport says of each way in which a request or a watch can end."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from reconciler.cluster.kinds import POD, Resource
from reconciler.cluster.transport import Request, Response, WatchRequest
from reconciler.errors import Relist, Retry, Undecided
from reconciler.operations.metrics.meters import Meters
from reconciler.operations.metrics.requests import Metered

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


def counted(meters: Meters, **labels: str) -> float | None:
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
    assert counted(meters, verb="patch", resource="resourceclaims/status", result=result) == 1
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
    assert counted(meters, verb=verb, resource=resource, result="ok") == 1


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
