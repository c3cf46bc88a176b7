"""Connections for watches, against servers that answer byte by byte as a test says."""

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from kubernetes_asyncio.client import Configuration

from reconciler.cluster.endpoint import Endpoint
from reconciler.cluster.transport import Response
from reconciler.cluster.watch_wire import WatchWire
from reconciler.errors import Rejected, Retry
from tests.tools.patience import PATIENCE

pytestmark = pytest.mark.loopback

LINES = [b'{"a":1}', b'{"b":"' + "ü".encode() * 30 + b'"}', b"3"]
TEXT = b"\n\n".join(LINES) + b"\n \ncut"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
Answer = Callable[[asyncio.StreamWriter], Awaitable[bool]]
"""Returns whether the server is silent afterwards, until the other side closes"""


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


@asynccontextmanager
async def watching(
    answer: Answer, *, idle: float = PATIENCE, line: int = 1000, buffer: int = 1000, refusal: int = 10**6
) -> AsyncIterator[tuple[WatchWire, Response]]:
    """A watch of a server that answers like this, and the head of what it answers."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            assert (
                await reader.readuntil(b"\r\n\r\n") == b"GET /x?w=1 HTTP/1.1\r\nHost: " + host + b"\r\n\r\n"
            )
            if await answer(writer):
                await reader.read()
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host = b"127.0.0.1:%d" % server.sockets[0].getsockname()[1]
    async with server:
        endpoint = Endpoint(Configuration(host=f"http://{host.decode()}"), connect_seconds=PATIENCE)

        def make() -> WatchWire:
            return WatchWire("GET /x", idle=idle, longest_line=line, buffer=buffer, longest_refusal=refusal)

        wire = await endpoint.connect(make, asyncio.get_running_loop().time() + PATIENCE)
        try:
            head = endpoint.head("GET", "/x", "w=1", {})
            yield wire, await wire.opened(f"{head}\r\n".encode())
        finally:
            wire.abort()
            server.close()


def saying(*pieces: bytes, then: str = "closes") -> Answer:
    """Sends the pieces one by one, each after the loop of the other side may have read the one before."""

    async def answer(writer: asyncio.StreamWriter) -> bool:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        return then == "silence"

    return answer


async def taken(wire: WatchWire) -> tuple[list[bytes], str]:
    """The lines, and the words of the error at their end."""
    lines: list[bytes] = []
    try:
        async for line in wire:
            lines.append(line)  # noqa: PERF401 - those before an error count
    except Retry as exc:
        return lines, str(exc)
    return lines, ""


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([CHUNKED, chunk(TEXT), b"0\r\n\r\n"], id="at once"),
        pytest.param([CHUNKED + chunk(TEXT) + b"0\r\n\r\n"], id="with the head"),
        pytest.param([bytes([b]) for b in CHUNKED + chunk(TEXT) + b"0\r\n\r\n"], id="byte by byte"),
        pytest.param(
            [CHUNKED, *[chunk(TEXT[at : at + 5]) for at in range(0, len(TEXT), 5)], b"0\r\n\r\n"], id="cut up"
        ),
        pytest.param(
            [b"HTTP/1.1 100 Continue\r\nRetry-After: 3\r\n\r\n", CHUNKED, chunk(TEXT), b"0\r\n\r\n"],
            id="a hint",
        ),
        pytest.param([b"HTTP/1.0 200 OK\r\n\r\n", TEXT], id="until the connection ends"),
        pytest.param([b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(TEXT), TEXT], id="of a length"),
        pytest.param(
            [CHUNKED, chunk(TEXT) + b"0\r\n\r\n" + CHUNKED + chunk(b"more\n")], id="more than asked"
        ),
    ],
)
async def test_lines_come_whole_however_they_are_sent(pieces):
    async with watching(saying(*pieces)) as (wire, response):
        assert (response.status, response.body) == (200, b"")
        assert "Retry-After" not in response.headers
        assert await taken(wire) == (LINES, "")
        assert await taken(wire) == ([], "")


@pytest.mark.parametrize(
    ("pieces", "idle", "why"),
    [
        pytest.param([chunk(b"1\n2\n3")], PATIENCE, "the server closed the connection", id="breaks"),
        pytest.param([chunk(b"1\n2\n"), b"no chunk"], PATIENCE, "not HTTP", id="is no HTTP"),
        pytest.param([chunk(b"1\n2\n") + b"no chunk"], PATIENCE, "not HTTP", id="is no HTTP at once"),
        pytest.param(
            [chunk(b"1\n2\n" + b"x" * 1001 + b"\n3\n")], PATIENCE, "a line of 1001 bytes", id="long"
        ),
        pytest.param(
            [chunk(b"1\n2\n" + b"x" * 1001)], PATIENCE, "a line of more than 1000", id="no line end"
        ),
        pytest.param([chunk(b"1\n2\n3")], 0.2, "nothing came for 0.2 s", id="falls silent"),
    ],
)
async def test_lines_before_an_error_count(pieces, idle, why):
    then = "silence" if idle < PATIENCE else "closes"
    async with watching(saying(CHUNKED, *pieces, then=then), idle=idle) as (wire, _):
        lines, error = await taken(wire)
        assert lines == [b"1", b"2"]
        assert error.startswith("GET /x: ")
        assert why in error
        assert wire._transport is not None
        assert wire._transport.is_closing()
        assert wire._alarm is not None
        assert wire._alarm.cancelled()  # else it would keep what came until the silence would be too long


async def test_what_comes_now_and_then_keeps_a_watch_alive():
    async def answer(writer: asyncio.StreamWriter) -> bool:
        writer.write(CHUNKED)
        for number in range(8):
            await asyncio.sleep(0.1)
            writer.write(chunk(b"%d\n" % number))
        writer.write(b"0\r\n\r\n")
        return False

    async with watching(answer, idle=0.6) as (wire, _):
        assert await taken(wire) == ([b"%d" % number for number in range(8)], "")


async def test_a_slow_taker_stops_the_server_and_not_the_watch():
    """What is not taken stays with the server, and that nothing comes meanwhile is not its fault."""
    sent = 0

    async def answer(writer: asyncio.StreamWriter) -> bool:
        nonlocal sent
        writer.write(CHUNKED)
        for _ in range(400):
            writer.write(chunk((b"x" * 99 + b"\n") * 1000))
            await writer.drain()
            sent += 1
        writer.write(b"0\r\n\r\n")
        return False

    async with watching(answer, idle=0.2) as (wire, _):
        before = -1
        while sent != before:  # until the buffers of the system are full
            before = sent
            await asyncio.sleep(0.3)
        assert sent < 400
        assert len(wire._lines) < 10_000
        lines, error = await taken(wire)
        assert (len(lines), error) == (400_000, "")


async def test_the_silence_counts_from_when_reading_went_on():
    """A server cannot send while nothing is read."""

    async def answer(writer: asyncio.StreamWriter) -> bool:
        writer.write(CHUNKED + chunk(b"x" * 900 + b"\n" + b"y" * 900 + b"\n"))
        await go_on.wait()
        writer.write(chunk(b"later\n") + b"0\r\n\r\n")
        return False

    go_on = asyncio.Event()
    async with watching(answer, idle=3.0) as (wire, _):
        while not wire._paused:  # noqa: ASYNC110 - nobody says so
            await asyncio.sleep(0.01)
        wire._heard -= 100.0  # it was paused for long
        lines = [await anext(wire), await anext(wire)]
        wire._check()  # the alarm goes off right then
        go_on.set()
        lines += [line async for line in wire]
    assert [line[:5] for line in lines] == [b"xxxxx", b"yyyyy", b"later"]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        pytest.param(b"HTTP/1.1 503 Busy\r\nContent-Length: 2\r\n\r\nno", "before the request", id="whole"),
        pytest.param(CHUNKED, "before the request", id="a head"),
        pytest.param(b"", "closed", id="closed"),
    ],
)
async def test_what_came_before_the_request_is_no_response_to_it(answer, why):
    wire = WatchWire("GET /x", idle=PATIENCE, longest_line=9, buffer=9, longest_refusal=1000)
    if answer:
        wire.data_received(answer)
    else:
        wire.connection_lost(None)
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(Retry, match=f"GET /x: .*{why}"):
            await wire.opened(b"GET /x HTTP/1.1\r\n\r\n")


async def test_a_refusal_comes_whole():
    body = b'{"message":"too old"}'
    head = b"HTTP/1.1 410 Gone\r\nRetry-After: 3\r\nContent-Length: %d\r\n\r\n" % len(body)
    async with watching(saying(head, body[:5], body[5:])) as (_, response):
        assert (response.status, response.body) == (410, body)
        assert response.headers["retry-after"] == "3"


@pytest.mark.parametrize(
    ("pieces", "error", "why"),
    [
        pytest.param(
            [b"HTTP/1.1 500 X\r\nContent-Length: 5000\r\n\r\n", b"x" * 5000], Rejected, "1000", id="long"
        ),
        pytest.param([b"HTTP/1.1 500 X\r\nContent-Length: 50\r\n\r\n", b"x"], Retry, "closed", id="half"),
        pytest.param([b"SSH-2.0-OpenSSH\r\n"], Retry, "not HTTP", id="no HTTP"),
        pytest.param(
            [b"HTTP/1.1 101 X\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n"],
            Retry,
            "another protocol",
            id="another protocol",
        ),
        pytest.param(
            [b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 9\r\n\r\n"],
            Rejected,
            r"GET /x: the answer is compressed \(gzip\)",
            id="compressed",
        ),
        pytest.param([], Retry, "closed", id="nothing"),
    ],
)
async def test_a_head_that_does_not_come_is_an_error(pieces, error, why):
    with pytest.raises(error, match=why) as caught:
        async with watching(saying(*pieces), refusal=1000):
            pass
    assert type(caught.value) is error


async def test_a_server_that_never_answers_is_given_up():
    with pytest.raises(Retry, match=r"GET /x: nothing came for 0\.2 s"):
        async with watching(saying(then="silence"), idle=0.2):
            pass


@pytest.mark.filterwarnings("error")
async def test_who_gives_up_leaves_nothing_open():
    async def watch() -> None:
        async with watching(saying(CHUNKED, chunk(b"1\n"), then="silence")) as (wire, _):
            async for _line in wire:
                pass

    for turns in range(0, 60, 3):
        task = asyncio.create_task(watch())
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    gc.collect()  # which warns of sockets that nobody closed
