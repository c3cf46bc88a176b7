"""The server on a real socket: behaviour that needs a socket."""

import asyncio
import io
import json

import aiohttp
import pytest

from reconciler.embedded import ApiServer, serve
from tests.tools.driving import CLAIMS, claim, ok
from tests.tools.patience import PATIENCE

JSON = {"Content-Type": "application/json"}

pytestmark = pytest.mark.loopback


async def test_requests_beyond_the_limit_get_a_429():
    """One request hangs in its body, so the next one gets a 429; watches do not count."""
    api = ApiServer()
    release = asyncio.Event()

    async def slow_body():
        yield json.dumps(claim("slow")).encode()
        await release.wait()

    async with (
        serve(api, max_in_flight=1) as url,
        aiohttp.ClientSession() as session,
        session.get(url + CLAIMS, params={"watch": "1"}) as watch,
    ):
        assert watch.status == 200
        slow = asyncio.create_task(session.post(url + CLAIMS, data=slow_body(), headers=JSON))
        status = 200
        while status == 200:
            async with session.get(url + CLAIMS) as answer:
                status, retry, body = answer.status, answer.headers.get("Retry-After"), await answer.json()
        assert (status, retry, body["reason"]) == (429, "1", "TooManyRequests")
        release.set()
        async with await slow as done:
            assert done.status == 201
        async with session.get(url + CLAIMS) as answer:
            assert answer.status == 200


async def test_a_large_body_is_refused_whether_announced_or_not():
    async def chunks():
        for _ in range(4):
            yield b" " * 2**20

    async with serve(ApiServer()) as url, aiohttp.ClientSession() as session:
        for body in (io.BytesIO(b" " * (4 * 2**20)), chunks()):
            async with session.post(url + CLAIMS, data=body, headers=JSON) as answer:
                assert answer.status == 413
                assert (await answer.json())["reason"] == "RequestEntityTooLarge"


async def test_leaving_ends_open_watches():
    async with aiohttp.ClientSession() as session:
        async with serve(ApiServer()) as url:
            watch = await session.get(url + CLAIMS, params={"watch": "1"})
            assert watch.status == 200
        with pytest.raises(aiohttp.ClientError):
            await watch.content.read()
        watch.close()


async def test_a_disconnected_reader_is_removed():
    api = ApiServer()
    shelf = next(shelf for shelf in api.store if shelf.kind.plural == "resourceclaims")
    async with serve(api) as url, aiohttp.ClientSession() as session:
        watch = await session.get(url + CLAIMS, params={"watch": "1"})
        assert len(shelf._waiters) == 1
        watch.close()
        async with asyncio.timeout(PATIENCE):
            while shelf._waiters:
                async with session.get(url + "/readyz") as answer:
                    assert await answer.text() == "ok"


async def test_live_changes_reach_a_watch_line_by_line():
    api = ApiServer()
    async with (
        serve(api) as url,
        aiohttp.ClientSession() as session,
        session.get(url + CLAIMS, params={"watch": "1", "timeoutSeconds": "1"}) as watch,
    ):
        for name in "ab":
            ok(api, "POST", CLAIMS, claim(name))
            assert json.loads(await watch.content.readline())["object"]["metadata"]["name"] == name
        assert await watch.content.readline() == b"", "the server closes when the time is over"


async def test_paths_and_selectors_may_be_percent_encoded():
    api = ApiServer()
    ok(api, "POST", CLAIMS, claim("a", labels={"x": "y"}))
    async with serve(api) as url, aiohttp.ClientSession() as session:
        encoded = f"{url}{CLAIMS}?labelSelector=x%20in%20%28y%29"
        async with session.get(encoded) as answer:
            assert len((await answer.json())["items"]) == 1
