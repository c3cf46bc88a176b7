"""Connections for writes, against servers that answer byte by byte as a test says."""

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from kubernetes_asyncio.client import Configuration

from reconciler.cluster import wires
from reconciler.cluster.connection import Broken
from reconciler.cluster.endpoint import Endpoint, NeverSent
from reconciler.cluster.transport import Request, Response
from reconciler.cluster.wires import Wires
from reconciler.errors import Rejected
from tests.tools.patience import PATIENCE

pytestmark = pytest.mark.loopback

LONG = PATIENCE
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Odd: a\r\nretry-after: 7\r\n\r\nok"
Answer = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]


class Server:
    """Reads whole requests and has each answered by `answer`."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.url = ""
        self.connections = 0
        self.heard: list[bytes] = []
        self.gone = asyncio.Event()
        """Set when a connection was closed"""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
                self.heard.append(head + await reader.readexactly(length))
                await self._answer(self.heard[-1], writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            self.gone.set()


@asynccontextmanager
async def serving(answer: Answer) -> AsyncIterator[Server]:
    made = Server(answer)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield made
        server.close()


@asynccontextmanager
async def wired(url: str, *, longest: int = 1000, most: int = 8) -> AsyncIterator[Wires]:
    endpoint = Endpoint(Configuration(host=url), connect_seconds=LONG)
    made = Wires(endpoint, longest=longest, most=most)
    try:
        yield made
    finally:
        made.close()


async def ask(pool: Wires, path: str = "/p", *, seconds: float = LONG, body: bytes = b"{}") -> Response:
    deadline = asyncio.get_running_loop().time() + seconds
    return await pool.send(Request("PATCH", path, body=body, timeout=seconds), {"A": "b"}, deadline)


def saying(*pieces: bytes) -> Answer:
    """Sends the pieces one by one, each after the loop of the other side may have read the one before."""

    async def answer(_request: bytes, writer: asyncio.StreamWriter) -> None:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)

    return answer


async def test_one_connection_does_for_requests_one_after_the_other():
    async with serving(saying(OK)) as server, wired(server.url + "/prefix/") as pool:
        first, second = await ask(pool, "/a"), await ask(pool, "/b", body=b"12345")
    assert (first.status, first.body, first.headers["Retry-After"]) == (200, b"ok", "7")
    assert second == first
    assert server.connections == 1
    host = server.url.removeprefix("http://").encode()
    assert server.heard == [
        b"PATCH /prefix/a HTTP/1.1\r\nHost: " + host + b"\r\nA: b\r\nContent-Length: 2\r\n\r\n{}",
        b"PATCH /prefix/b HTTP/1.1\r\nHost: " + host + b"\r\nA: b\r\nContent-Length: 5\r\n\r\n12345",
    ]


@pytest.mark.parametrize(
    ("pieces", "body"),
    [
        pytest.param([bytes([b]) for b in OK], b"ok", id="byte by byte"),
        pytest.param(
            [
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
                b"3\r\nabc\r\n",
                b"1\r\nd\r\n0\r\n\r\n",
            ],
            b"abcd",
            id="chunked",
        ),
        pytest.param([b"HTTP/1.1 100 Continue\r\n\r\n", OK], b"ok", id="after a hint"),
        pytest.param([b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK], b"ok", id="with a hint"),
        pytest.param([b"HTTP/1.1 204 No Content\r\n\r\n"], b"", id="nothing to say"),
        pytest.param([b"HTTP/1.1 409 Conflict\r\nContent-Length: 0\r\n\r\n"], b"", id="no body"),
    ],
)
async def test_an_answer_arrives_whole_however_it_is_sent(pieces, body):
    async with serving(saying(*pieces)) as server, wired(server.url) as pool:
        answers = [await ask(pool), await ask(pool)]
    assert [answer.body for answer in answers] == [body, body]
    assert server.connections == 1


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.0 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\n",
    ],
)
async def test_a_connection_that_the_server_closes_with_its_answer_is_not_used_again(head):
    async def answer(_request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(head + b"body")
        writer.close()

    async with serving(answer) as server, wired(server.url) as pool:
        assert [(await ask(pool)).body for _ in range(2)] == [b"body", b"body"]
    assert server.connections == 2


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([b"SSH-2.0-OpenSSH\r\n"], id="no HTTP"),
        pytest.param([b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"], id="half"),
        pytest.param([b"HTTP/1.1 200"], id="half a head"),
        pytest.param([], id="nothing"),
    ],
)
async def test_an_answer_that_breaks_off_leaves_open_what_happened(pieces):
    async def answer(request: bytes, writer: asyncio.StreamWriter) -> None:
        await saying(*pieces)(request, writer)
        writer.close()

    async with serving(answer) as server, wired(server.url) as pool:
        with pytest.raises(Broken):
            await ask(pool)
    assert len(server.heard) == 1


async def test_an_answer_of_any_length_is_not_kept():
    answer = saying(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n", b"x" * 5000)
    async with serving(answer) as server, wired(server.url) as pool:
        with pytest.raises(Rejected, match="more than 1000 bytes"):
            await ask(pool)


async def test_a_server_that_says_nothing_is_given_up():
    async with serving(saying()) as server, wired(server.url) as pool:
        with pytest.raises(TimeoutError):
            await ask(pool, seconds=2.0)


async def test_a_connection_keeps_to_the_deadline_of_each_request():
    """Its alarm is set for an earlier request, whose deadline may be sooner or later."""

    async def answer(request: bytes, writer: asyncio.StreamWriter) -> None:
        if b"/late" in request:
            await asyncio.sleep(0.1)
        if b"/never" not in request:
            writer.write(OK)

    async with serving(answer) as server, wired(server.url) as pool:
        await ask(pool, seconds=0.05)
        assert (await ask(pool, "/late")).body == b"ok"
        with pytest.raises(TimeoutError):
            await ask(pool, "/never", seconds=0.05)
    assert server.connections == 1


@pytest.mark.parametrize("pieces", [[OK, b"HTTP/1.1 200 OK\r\n"], [OK + OK], [OK + OK[:20]], [OK, b"\0"]])
async def test_what_was_not_asked_for_is_not_taken_for_the_next_answer(pieces):
    served = 0

    async def answer(request: bytes, writer: asyncio.StreamWriter) -> None:
        nonlocal served
        served += 1
        if served > 1:
            await saying(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecond")(request, writer)
        else:
            await saying(*pieces)(request, writer)
            writer.write_eof()

    async with serving(answer) as server, wired(server.url) as pool:
        assert (await ask(pool)).body == b"ok"
        while server.connections == 1:  # what was too much may not have arrived yet: then it breaks this one
            try:
                assert (await ask(pool)).body == b"second"
            except OSError:
                served = 1


async def test_who_gives_up_takes_the_connection_along():
    """Otherwise the next request would get this one's answer."""
    heard = asyncio.Event()
    go = asyncio.Event()

    async def answer(request: bytes, writer: asyncio.StreamWriter) -> None:
        heard.set()
        await go.wait()
        body = request.split(b" ")[1]
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n" + body)

    async with serving(answer) as server, wired(server.url, most=1) as pool:
        first = asyncio.create_task(ask(pool, "/1"))
        await heard.wait()
        first.cancel()
        await asyncio.wait([first])
        go.set()
        assert first.cancelled()
        assert (await ask(pool, "/2")).body == b"/2"
    assert server.connections == 2


async def test_who_gives_up_while_it_connects_leaves_no_socket_open():
    async with serving(saying(OK)) as server, wired(server.url.replace("127.0.0.1", "localhost")) as pool:
        for turns in range(60):
            asked = asyncio.create_task(ask(pool))
            for _ in range(turns):
                await asyncio.sleep(0)
            asked.cancel()
            await asyncio.gather(asked, return_exceptions=True)
            pool.close()
        gc.collect()  # which warns of sockets that nobody closed


async def test_no_more_connections_than_allowed_and_who_waits_too_long_sent_nothing():
    go = asyncio.Event()
    heard = asyncio.Event()

    async def answer(_request: bytes, writer: asyncio.StreamWriter) -> None:
        heard.set()
        await go.wait()
        writer.write(OK)

    async with serving(answer) as server, wired(server.url, most=1) as pool:
        first = asyncio.create_task(ask(pool))
        await heard.wait()
        with pytest.raises(NeverSent, match="busy"):
            await ask(pool, seconds=0.01)
        go.set()
        assert (await first).body == b"ok"
        assert (await ask(pool)).body == b"ok"
    assert (server.connections, len(server.heard)) == (1, 2)


async def test_who_waits_when_all_is_closed_gets_an_answer_and_leaves_nothing_open():
    heard, go = asyncio.Event(), asyncio.Event()

    async def answer(_request: bytes, writer: asyncio.StreamWriter) -> None:
        heard.set()
        await go.wait()
        writer.write(OK)

    async with serving(answer) as server, wired(server.url) as pool:
        first = asyncio.create_task(ask(pool))
        await heard.wait()
        pool.close()
        go.set()
        assert (await first).body == b"ok"
        async with asyncio.timeout(LONG):
            await server.gone.wait()


async def test_an_old_connection_is_not_trusted_with_a_write(monkeypatch):
    async with serving(saying(OK)) as server, wired(server.url) as pool:
        await ask(pool)
        monkeypatch.setattr(wires, "IDLE_SECONDS", 0.0)
        await ask(pool)
    assert server.connections == 2


async def test_nobody_there():
    async with serving(saying(OK)) as server:
        pass
    async with wired(server.url) as pool:
        with pytest.raises(NeverSent, match="Connect"):
            await ask(pool)


async def test_a_name_or_a_header_cannot_add_lines_to_a_request():
    async with serving(saying(OK)) as server, wired(server.url) as pool:
        await ask(pool, "/a b\r\nX: y/ü?#")
        with pytest.raises(Rejected, match="Authorization"):
            await pool.send(Request("PATCH", "/p", timeout=LONG), {"Authorization": "Bearer a\r\nX: y"}, 0.0)
        posted = Request("POST", "/p", query=[("a", "b&c\r\n")], timeout=LONG)
        await pool.send(posted, {}, asyncio.get_running_loop().time() + LONG)
    lines = [request.split(b"\r\n")[0] for request in server.heard]
    assert lines == [
        b"PATCH /a%20b%0D%0AX%3A%20y/%C3%BC%3F%23 HTTP/1.1",
        b"POST /p?a=b%26c%0D%0A HTTP/1.1",
    ]


@pytest.mark.parametrize("host", ["http://127.0.0.1:http", "http://[::1", "http://127.0.0.1:99999"])
async def test_a_server_that_is_no_url_is_named(host):
    with pytest.raises(Rejected, match="cannot reach a cluster"):
        async with wired(host):
            pass
