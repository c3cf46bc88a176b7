"""The transport against servers that misbehave, on real sockets of this machine."""

import asyncio
import base64
from typing import Any

import pytest
import yaml
from aiohttp import web
from kubernetes_asyncio.client import ApiClient, Configuration

from reconciler.api.objects.changes import Changed, Notice
from reconciler.api.objects.meta import ObjectKey
from reconciler.cluster import credentials, http
from reconciler.cluster.client import Client
from reconciler.cluster.http import HttpTransport, connect
from reconciler.cluster.kinds import NODE
from reconciler.cluster.transport import Request, WatchRequest
from reconciler.cluster.watch import follow
from reconciler.embedded import ApiServer, Stream, serve
from reconciler.embedded import Request as Received
from reconciler.embedded import Response as Answer
from reconciler.errors import Rejected, Relist, Retry, Undecided
from tests.tools.http_servers import saying, serving, streaming
from tests.tools.patience import PATIENCE

pytestmark = pytest.mark.loopback

KEY = ObjectKey("", "n")


async def lines_of(server: str, idle: float = 5.0) -> tuple[list[bytes], Exception | None]:
    lines: list[bytes] = []
    try:
        watch = WatchRequest("/x", idle=idle)
        async with connect(server=server) as transport, transport.stream(watch) as stream:
            async for line in stream:
                lines.append(line)  # noqa: PERF401 - those before an error count
    except Retry as exc:
        return lines, exc
    return lines, None


async def test_a_stream_ends_without_its_cut_last_line():
    async with serving(streaming(b'{"a"', b':1}\n{"b":2}\n{"c', then="end")) as server:
        assert await lines_of(server) == ([b'{"a":1}', b'{"b":2}'], None)


async def test_a_connection_that_breaks_is_tried_again():
    async with serving(streaming(b'{"a":1}\n{"b', then="breaks")) as server:
        lines, error = await lines_of(server)
    assert lines == [b'{"a":1}']
    assert type(error) is Retry


async def test_a_silent_stream_is_given_up():
    async with serving(streaming(b'{"a":1}\n', then="silence")) as server:
        lines, error = await lines_of(server, idle=0.1)
    assert lines == [b'{"a":1}']
    assert type(error) is Retry


async def test_a_long_line_arrives_whole():
    """Longer than the buffer from which the library itself reads lines."""
    line = b"x" * (3 * 2**20)
    async with serving(streaming(line + b"\n", then="end")) as server:
        lines, error = await lines_of(server)
    assert (lines, error) == ([line], None)


@pytest.mark.parametrize(("then", "error"), [("end", type(None)), ("breaks", Retry), ("silence", Retry)])
async def test_a_stream_through_a_proxy_is_like_any_other(monkeypatch, then, error):
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    async with serving(streaming(b'{"a"', b':1}\n\n{"b":2}\n{"c', then=then)) as proxy:
        monkeypatch.setenv("http_proxy", proxy)
        lines, caught = await lines_of(
            "http://a.cluster.invalid", idle=0.5 if then == "silence" else PATIENCE
        )
    assert lines == [b'{"a":1}', b'{"b":2}']
    assert type(caught) is error


async def test_the_status_of_a_stream_is_an_error_like_any_other():
    async def handle(request: web.Request) -> web.Response:
        return web.json_response({"kind": "Status", "message": "too old"}, status=410)

    async with serving(handle) as server, connect(server=server) as transport:
        with pytest.raises(Relist, match="too old"):
            async with transport.stream(WatchRequest("/x", query=[("a", "b c"), ("d", "ü&=")], idle=1)):
                pass


async def test_a_refused_connection_was_never_a_write():
    async with serving(streaming(then="end")) as server:
        pass
    said = r"no connection to 127\.0\.0\.1:\d+: Connection refused: is the server running, and"
    async with connect(server=server) as transport:
        client = Client(transport)
        for request in (client.get(NODE, KEY), client.patch(NODE, KEY, {})):
            with pytest.raises(Retry, match=said) as caught:
                await request
            assert type(caught.value) is Retry


@pytest.mark.parametrize("how", ["breaks", "silence"])
async def test_a_write_without_an_answer_is_undecided_and_not_sent_twice(how):
    """Sent again behind our back, an applied write would look like a conflict."""
    seen: list[str] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        seen.append(request.method)
        await request.read()
        if how == "silence":
            await asyncio.Event().wait()
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async with serving(handle) as server, connect(server=server) as transport:
        seconds = 2.0 if how == "silence" else PATIENCE  # by then it was sent
        client = Client(transport, read_seconds=seconds, write_seconds=seconds)
        with pytest.raises(Undecided) as undecided:
            await client.patch(NODE, KEY, {"a": 1})
        assert seen == ["PATCH"]
        with pytest.raises(Retry) as caught:
            await client.get(NODE, KEY)
        assert type(caught.value) is Retry
        for error in (undecided.value, caught.value):
            assert "TimeoutError" not in str(error)
            assert ("no answer in time" in str(error)) == (how == "silence")


async def test_a_request_arrives_as_it_was_meant():
    async def handle(request: web.Request) -> web.Response:
        return web.json_response(
            {
                "query": list(request.query.items()),
                "type": request.headers["Content-Type"],
                "agent": request.headers["User-Agent"],
                "body": await request.json(),
            }
        )

    async with serving(handle) as server, connect(server=f"{server}/") as transport:
        request = Request(
            "PATCH",
            "/p",
            query=[("continue", "a+b/=&ü")],
            body={"a": None},
            content_type="application/merge-patch+json",
            timeout=PATIENCE,
        )
        answer = await transport.send(request)
    assert yaml.safe_load(answer.body) == {
        "query": [["continue", "a+b/=&ü"]],
        "type": "application/merge-patch+json",
        "agent": "dra-reconciler",
        "body": {"a": None},
    }


@pytest.mark.parametrize("token", ["", "Bearer t"])
@pytest.mark.parametrize("proxied", [True, False])
async def test_a_login_in_the_address_goes_with_every_request_without_a_token(monkeypatch, proxied, token):
    seen: list[tuple[str, str | None]] = []

    async def handle(request: web.Request) -> web.Response:
        seen.append((request.method, request.headers.get("Authorization")))
        return web.json_response({})

    async with serving(handle) as server:
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        host = "cluster.invalid" if proxied else server.removeprefix("http://")
        if proxied:
            monkeypatch.setenv("http_proxy", server)
        configuration = Configuration(host=f"http://u:p%40%C3%BC@{host}")
        if token:
            configuration.api_key = {"BearerToken": token}
        async with ApiClient(configuration) as api:
            transport = HttpTransport(api)
            for method in ("GET", "PATCH"):
                await transport.send(Request(method, "/x", timeout=PATIENCE))
            async with transport.stream(WatchRequest("/x", idle=PATIENCE)) as lines:
                assert [line async for line in lines] == []
    login = token or "Basic " + base64.b64encode("u:p@ü".encode()).decode()
    assert seen == [("GET", login), ("PATCH", login), ("GET", login)]


@pytest.mark.parametrize("how", ["left", "cancelled"])
async def test_a_watch_that_nobody_takes_any_more_is_closed(how):
    opened = asyncio.Event()

    async def watch(address: str) -> None:
        async with connect(server=f"http://{address}") as transport:
            async with transport.stream(WatchRequest("/x", idle=PATIENCE)) as lines:
                opened.set()
                if how == "cancelled":
                    await anext(lines)
            await closed.wait()

    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with asyncio.timeout(PATIENCE), saying(head) as (address, closed):
        task = asyncio.create_task(watch(address))
        await opened.wait()
        if how == "cancelled":
            task.cancel()
        await asyncio.wait([task])
        await closed.wait()
    assert task.cancelled() is (how == "cancelled")


@pytest.mark.parametrize("late", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"], ids=["head", "body"])
async def test_a_request_that_is_cancelled_as_its_time_ends_is_cancelled(late):
    """Both are due in one round of the loop, its own end first."""
    seconds, loop = 0.2, asyncio.get_running_loop()

    async def ask(address: str) -> None:
        async with connect(server=f"http://{address}") as transport:
            await transport.send(Request("GET", "/x", timeout=seconds))

    async with asyncio.timeout(PATIENCE), saying(late) as (address, _):
        task = asyncio.create_task(ask(address))
        loop.call_later(seconds * 1.2, task.cancel)
        await asyncio.sleep(seconds / 2)
        busy_until = loop.time() + seconds
        while loop.time() < busy_until:
            pass
        await asyncio.wait([task])
    assert task.cancelled()


async def test_a_request_without_an_answer_ends_in_time():
    async with saying(b"") as (address, _), connect(server=f"http://{address}") as transport:
        for method, error in (("GET", Retry), ("PATCH", Undecided)):
            with pytest.raises(error, match="no answer in time") as told:
                await transport.send(Request(method, "/x", timeout=0.1))
            assert type(told.value) is error


async def test_a_server_that_never_shakes_hands_is_given_up(monkeypatch):
    monkeypatch.setattr(http, "CONNECT_SECONDS", 0.2)
    async with asyncio.timeout(PATIENCE), saying(b"") as (address, closed):
        async with connect(server=f"https://{address}", insecure=True) as transport:
            with pytest.raises(Retry, match=r"no connection to .* no answer in time"):
                async with transport.stream(WatchRequest("/x", idle=PATIENCE)):
                    pass
        await closed.wait()


async def test_the_path_of_a_server_is_sent_as_it_can_be():
    async def handle(request: web.Request) -> web.Response:
        return web.json_response({"path": request.raw_path}, status=418)

    async with serving(handle) as server, connect(server=f"{server}/ü %2F/") as transport:
        client = Client(transport)
        for request in (client.fetch("/p"), client.patch(NODE, KEY, {})):
            with pytest.raises(Rejected, match="418"):
                await request
        seen = [await transport.send(Request(method, "/p", timeout=PATIENCE)) for method in ("GET", "PUT")]
    assert [yaml.safe_load(answer.body)["path"] for answer in seen] == ["/%C3%BC%20%2F/p"] * 2


async def test_a_redirect_is_not_followed():
    """It would carry our credentials to whoever it names."""

    async def handle(request: web.Request) -> web.Response:
        raise web.HTTPFound("http://127.0.0.1:1/")

    async with serving(handle) as server, connect(server=server) as transport:
        with pytest.raises(Rejected, match="302"):
            await Client(transport).get(NODE, KEY)


async def test_an_answer_of_any_length_is_not_kept(monkeypatch):
    monkeypatch.setattr(http, "LONGEST_ANSWER", 1000)

    async def handle(request: web.Request) -> web.Response:
        return web.Response(body=b"x" * 1001)

    async with serving(handle) as server, connect(server=server) as transport:
        for method in ("GET", "PATCH"):
            with pytest.raises(Rejected, match="an answer of more than 1000 bytes"):
                await transport.send(Request(method, "/x", timeout=PATIENCE))


async def test_a_line_beyond_the_limit_ends_a_watch(monkeypatch):
    monkeypatch.setattr(http, "LONGEST_LINE", 10)
    async with serving(streaming(b"{}\n", b"x" * 11, then="silence")) as server:
        lines, error = await lines_of(server, idle=PATIENCE)
    assert lines == [b"{}"]
    assert "a line of more than 10 bytes" in str(error)


async def test_a_slow_taker_stops_the_server_and_not_the_watch():
    line, sent = b"x" * 2**16 + b"\n", 0

    async def handle(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(512):
            await response.write(line)
            sent += 1
        return response

    watch = WatchRequest("/x", idle=PATIENCE)
    async with (
        serving(handle) as server,
        connect(server=server) as transport,
        transport.stream(watch) as lines,
    ):
        await anext(lines)
        before = -1
        while before < sent:  # until it is stopped
            before = sent
            await asyncio.sleep(0.3)
        assert sent < 512
        assert 1 + len([line async for line in lines]) == 512


@pytest.mark.parametrize("host", ["http://[::1", "https://n:port", "http://n:99999"])
async def test_a_server_that_is_no_url_is_named(host):
    with pytest.raises(Rejected, match=r"cannot reach a cluster: ") as caught:
        async with connect(server=host):
            pass
    assert host in str(caught.value)


async def test_a_token_cannot_add_lines_to_a_request():
    configuration = Configuration(host="http://127.0.0.1:1", api_key={"BearerToken": "t\r\nX: 1"})
    async with ApiClient(configuration) as api:
        with pytest.raises(Rejected, match="the header Authorization cannot be sent"):
            await Client(HttpTransport(api)).get(NODE, KEY)


async def test_list_watch_and_write_go_through_the_client_of_the_library(monkeypatch):
    called, seen = [], []
    call_api = credentials.ApiClient.call_api

    def counted(self: ApiClient, path: str, method: str, **arguments: Any) -> Any:
        called.append((method, path))
        return call_api(self, path, method, **arguments)

    class Seeing(ApiServer):
        def handle(self, request: Received) -> Answer | Stream:
            seen.append((request.method, request.path))
            return super().handle(request)

    monkeypatch.setattr(credentials.ApiClient, "call_api", counted)
    listed = asyncio.Event()
    async with serve(Seeing()) as server, connect(server=server) as transport:
        client = Client(transport)

        def sink(notice: Notice) -> None:
            if isinstance(notice, Changed):
                listed.set()

        watching = asyncio.create_task(follow(client, NODE, sink=sink, random=lambda: 0.5))
        async with asyncio.timeout(PATIENCE):
            await client.create(NODE, {"metadata": {"name": "n"}})
            await client.patch(NODE, KEY, {"metadata": {"labels": {"a": "b"}}})
            await listed.wait()
            await client.delete(NODE, KEY)
        watching.cancel()
        await asyncio.wait([watching])
    assert sorted(called) == sorted(seen)
    nodes = "/api/v1/nodes"
    assert {("POST", nodes), ("PATCH", f"{nodes}/n"), ("DELETE", f"{nodes}/n"), ("GET", nodes)} == {*called}
