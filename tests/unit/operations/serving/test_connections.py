"""Who comes to the status port and asks nothing, slowly, or too much, keeps nobody else out."""

import asyncio
import io
import json
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from yarl import URL

from reconciler.operations.log_setup import configure
from reconciler.operations.metrics import catalogue as of
from reconciler.operations.metrics.meters import labelled
from reconciler.operations.serving.access import local_only
from reconciler.operations.serving.port import Route, StatusPort
from reconciler.operations.serving.questions import question_route
from reconciler.operations.serving.server import LIMITS, MAX_HEADERS, Limits, serving
from reconciler.operations.telemetry import Signals, Telemetry
from reconciler.settings import Settings
from tests.tools.patience import PATIENCE
from tests.tools.watched_reconciler import ask, utc_now

pytestmark = pytest.mark.loopback
ASKS = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n"


class Door:
    """An answer that waits until it may be given."""

    def __init__(self) -> None:
        self.asked = asyncio.Semaphore(0)
        self.go = asyncio.Event()

    async def answer(self, _: web.BaseRequest) -> web.StreamResponse:
        self.asked.release()
        await self.go.wait()
        return web.Response(text="at last")


async def repeat(request: web.BaseRequest) -> web.StreamResponse:
    return web.Response(text=await request.text())


async def hello(_: web.BaseRequest) -> web.StreamResponse:
    return web.Response(text="hello")


@asynccontextmanager
async def served(door: Door | None = None, limits: Limits = LIMITS, **flags: Any) -> AsyncIterator[URL]:
    port = StatusPort(local_only)
    port.add(Route("/livez", hello, open=True), Route("/slow", (door or Door()).answer, open=True))
    port.add(Route("/body", repeat, methods=("POST",)))
    async with serving(port, Settings(**flags), now=utc_now, limits=limits) as url:
        yield URL(url)


class Visitor:
    """A connection by hand."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    def send(self, text: bytes) -> None:
        self.writer.write(text)

    async def end(self) -> bytes:
        """All that is said until the connection ends."""
        said = b""
        async with asyncio.timeout(PATIENCE):
            with suppress(ConnectionError):
                while part := await self._reader.read(1024):
                    said += part
        return said


@asynccontextmanager
async def visitor(url: URL) -> AsyncIterator[Visitor]:
    reader, writer = await asyncio.open_connection("127.0.0.1", url.port)
    try:
        yield Visitor(reader, writer)
    finally:
        writer.close()


@pytest.mark.parametrize("said", [b"", ASKS], ids=["nothing", "half a request"])
async def test_a_connection_without_a_request_is_closed(said: bytes):
    async with served(limits=Limits(seconds=0.05)) as url, visitor(url) as one:
        one.send(said)
        assert await one.end() == b""


async def test_a_slow_request_is_closed():
    async with served(limits=Limits(seconds=0.05)) as url, visitor(url) as one:
        one.send(ASKS)

        async def dribble() -> None:
            with suppress(ConnectionError):
                for number in range(100_000):
                    one.send(b"x" if number % 8 else b"\r\na:")
                    await asyncio.wait([ending], timeout=0.005)
                    if ending.done():
                        return

        ending = asyncio.ensure_future(one.end())
        await dribble()
        assert b"200 OK" not in await ending


async def test_a_connection_with_a_request_in_progress_is_kept():
    """However long that takes; only asking is timed."""
    door = Door()
    async with served(door, Limits(seconds=2.0)) as url, visitor(url) as one, visitor(url) as idle:
        one.send(b"GET /slow HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        await door.asked.acquire()
        assert await idle.end() == b""  # the time is over
        door.go.set()
        assert (await one.end()).endswith(b"at last")


async def test_a_connection_without_a_tls_handshake_is_closed(tmp_path: Path):
    token = tmp_path / "token"
    token.write_text("t")
    flags: dict[str, Any] = {"status_address": "0.0.0.0", "status_token_file": token}
    async with served(limits=Limits(seconds=0.05), **flags) as url, visitor(url) as one:
        assert await one.end() == b""


async def test_the_oldest_idle_connection_makes_room():
    async with served(limits=Limits(connections=3)) as url, AsyncExitStack() as stack:
        idle = [await stack.enter_async_context(visitor(url)) for _ in range(3)]
        for one in idle:
            one.send(ASKS)
        for _ in range(4):
            assert (await ask(f"{url}/livez")).text == "hello"
        assert await idle[0].end() == b""


async def test_connections_with_a_request_do_not_make_room():
    door = Door()
    async with served(door, Limits(connections=2)) as url, AsyncExitStack() as stack:
        two = [await stack.enter_async_context(visitor(url)) for _ in range(2)]
        for one in two:
            one.send(b"GET /slow HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            await door.asked.acquire()
        for _ in range(5):
            async with visitor(url) as late:
                assert await late.end() == b""
        door.go.set()
        for one in two:
            assert (await one.end()).endswith(b"at last")


@pytest.mark.parametrize(
    "header",
    [b"A: " + b"x" * 10_000, b"A" * 10_000 + b": x", b"\r\n".join([b"A: x"] * (MAX_HEADERS + 1))],
    ids=["a long value", "a long name", "many"],
)
async def test_too_large_headers_are_rejected(header: bytes):
    async with served() as url, visitor(url) as one:
        one.send(ASKS + header + b"\r\n\r\n")
        assert (await one.end()).startswith((b"HTTP/1.1 400", b"HTTP/1.0 400"))


async def test_nothing_of_a_malformed_request_is_repeated(monkeypatch: pytest.MonkeyPatch):
    """Neither to its sender nor in the log, which gets one line for all: a header may be a spoilt token."""
    monkeypatch.setattr(sys, "stderr", stderr := io.StringIO())
    configure("info", "json")
    body = ASKS.replace(b"GET /livez", b"POST /body")
    cases = [
        ASKS + b"X: a\rBearer MARK\r\n\r\n",
        ASKS + b"Autho rization: Bearer MARK\r\n\r\n",
        ASKS + b"Authorization Bearer MARK\r\n\r\n",
        ASKS + b"Authorization: MARK\0\r\n\r\n",
        ASKS + b"Content-Length: MARK\r\n\r\n",
        b"GET http://[MARK HTTP/1.1\r\n\r\n",
        b"GET / HTTP/MARK\r\n\r\n",
        body + b"Transfer-Encoding: chunked\r\n\r\nMARK\r\n",
        body + b"Transfer-Encoding: chunked\r\n\r\n1\r\nMARK\r\n",
        body + b"Content-Encoding: gzip\r\nConnection: close\r\nContent-Length: 4\r\n\r\nMARK",
    ]
    async with served() as url:
        for case in cases:
            async with visitor(url) as one:
                one.send(case)
                head, _, said = (await one.end()).partition(b"\r\n\r\n")
            assert (head[9:12], said, b"MARK" in head) == (b"400", b"malformed HTTP request\n", False), case
    (line,) = stderr.getvalue().splitlines()
    assert json.loads(line)["event"] == "malformed status requests"
    assert (json.loads(line)["logger"], "MARK" in line) == ("reconciler.operations.serving.server", False)


# -- Telemetry before and after the parts of a process registered their signals.


def telemetry(stop: asyncio.Event) -> Telemetry:
    now = datetime(2026, 3, 1, tzinfo=UTC)
    return Telemetry(Settings(), stop=stop, now=lambda: now, lease="x")


def test_before_anything_registers_the_process_lives_and_is_not_ready():
    seen = telemetry(asyncio.Event())
    assert seen.live.problems() == {}
    assert seen.ready.problems() == {"discovery": "the API server has not answered yet"}


def test_a_process_that_ends_is_not_ready():
    stop = asyncio.Event()
    seen = telemetry(stop)
    seen.register(Signals(ready={"discovery": lambda: ""}))
    assert seen.ready.problems() == {}
    stop.set()
    assert seen.ready.problems() == {"shutdown": "the process is shutting down"}


def test_the_last_signal_of_a_name_counts():
    seen = telemetry(asyncio.Event())
    seen.register(
        Signals(live={"tasks": lambda: "ended: a"}, readings=[labelled(of.LEADER, lambda: {"x": 1.0})]),
        Signals(live={"tasks": lambda: "ended: b"}, readings=[labelled(of.LEADER, lambda: {"x": 2.0})]),
    )
    assert seen.live.problems() == {"tasks": "ended: b"}
    values = [sample.value for family in seen.readings.collect() for sample in family.samples]
    assert values.count(2.0) == 1
    assert 1.0 not in values


# -- Bodies of questions.


async def never(_: web.BaseRequest, __: str) -> dict[str, Any]:
    raise AssertionError


async def post(kind: str, body: AsyncIterator[bytes], **terms: float) -> tuple[int, str]:
    """Status and text of the refusal."""
    port = StatusPort(local_only)
    port.add(question_route("/ask", never, **terms))
    async with (
        serving(port, Settings(), now=utc_now) as url,
        asyncio.timeout(PATIENCE),
        aiohttp.ClientSession() as session,
        session.post(f"{url}/ask", data=body, headers={"Content-Type": kind}) as response,
    ):
        return response.status, await response.text()


async def whole() -> AsyncIterator[bytes]:
    yield b"{}"


async def unfinished() -> AsyncIterator[bytes]:
    yield b"{"
    await asyncio.Event().wait()


async def test_another_content_type_is_told_which_to_use():
    said = "unsupported content type; use application/json or application/yaml\n"
    assert await post("text/plain", whole()) == (415, said)


async def test_a_body_that_does_not_end_has_a_timeout_of_its_own():
    """That of the answer has not begun."""
    said = "the body did not arrive within 0.05 seconds\n"
    assert await post("application/json", unfinished(), read_seconds=0.05, seconds=0.0) == (408, said)
