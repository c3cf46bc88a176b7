"""An API server that misbehaves: faults before any transport, and a proxy that has them, for other processes.

Unlike the weather of the simulation, which draws single faults, these last as long as they are set.
"""

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from math import inf
from random import Random

from aiohttp import web

from reconciler.cluster.events import complete_lines
from reconciler.cluster.http import LONGEST_LINE
from reconciler.cluster.transport import READS, Request, Response, Transport, WatchRequest, refusal
from reconciler.errors import ReconcilerError, Relist, Retry, Undecided
from tests.tools.http_servers import serving


@dataclass
class Faults:
    """What is wrong. Shares are of 1."""

    slow: tuple[float, float] = (0.0, 0.0)
    """Least and most seconds until an answer"""
    busy: float = 0.0
    """Share of requests that are answered with 429"""
    retry_after: int = 2
    failing: float = 0.0
    """Share of requests that are answered with 500 or 503; half of those with 500 were applied"""
    cut: float = 0.0
    """Share of lines of watches in whose middle the connection ends"""
    watch_seconds: float = inf
    """After which a watch ends"""
    bookmarks: bool = True
    stale: bool = False
    """Listings are those that were asked for first"""
    away: bool = False
    """Its name has no address, and what was connected is not any more"""


class CutOff(Retry):
    """A connection ended within a line."""

    def __init__(self, sent: bytes) -> None:
        super().__init__("connection reset")
        self.sent = sent


@dataclass
class Hostile:
    """A transport with faults, which can be changed at any time. Counts what reaches it."""

    behind: Transport
    faults: Faults = field(default_factory=Faults)
    random: Random = field(default_factory=lambda: Random(1))
    longest_line: int = LONGEST_LINE
    requests: list[float] = field(default_factory=list)
    """When each came"""
    _first: dict[str, Response] = field(default_factory=dict)
    _late: set[asyncio.Task[Response]] = field(default_factory=set)

    async def send(self, request: Request) -> Response:
        self._arrives(request.path)
        answer = asyncio.ensure_future(self._answered(request))
        self._late.add(answer)  # what nobody waits for any more is applied all the same
        answer.add_done_callback(self._ended)
        done, _ = await asyncio.wait([answer], timeout=request.timeout)
        if not done:
            error = Retry if request.method in READS else Undecided
            raise error(f"{request.method} {request.path}: no answer in time", busy=True)
        return answer.result()

    async def _answered(self, request: Request) -> Response:
        await asyncio.sleep(self.random.uniform(*self.faults.slow))
        if self._meets(self.faults.busy):
            return _status(HTTPStatus.TOO_MANY_REQUESTS, {"Retry-After": str(self.faults.retry_after)})
        if self._meets(self.faults.failing):
            if self.random.random() < 0.5:
                return _status(HTTPStatus.SERVICE_UNAVAILABLE)
            if self.random.random() < 0.5:
                await self.behind.send(request)
            return _status(HTTPStatus.INTERNAL_SERVER_ERROR)
        which = f"{request.path} {sorted(request.query)}"
        if self.faults.stale and which in self._first:
            return self._first[which]
        answer = await self.behind.send(request)
        if dict(request.query).get("limit"):
            self._first.setdefault(which, answer)
        return answer

    @asynccontextmanager
    async def stream(self, request: WatchRequest) -> AsyncIterator[AsyncIterator[bytes]]:
        self._arrives(request.path)
        await asyncio.sleep(self.random.uniform(*self.faults.slow))
        if self._meets(self.faults.busy):
            answer = _status(HTTPStatus.TOO_MANY_REQUESTS, {"Retry-After": str(self.faults.retry_after)})
            raise refusal("GET", request.path, answer)
        if self._meets(self.faults.failing):
            raise refusal("GET", request.path, _status(HTTPStatus.INTERNAL_SERVER_ERROR))
        async with (
            self.behind.stream(request) as lines,
            aclosing(self._lines(lines, request.idle)) as chunks,
            aclosing(complete_lines(chunks, limit=self.longest_line)) as complete,
        ):
            yield complete

    async def _lines(self, lines: AsyncIterator[bytes], idle: float) -> AsyncGenerator[bytes, None]:
        now = asyncio.get_running_loop().time
        until, told = now() + self.faults.watch_seconds, now()
        coming = asyncio.ensure_future(anext(lines, None))
        try:
            while not self.faults.away:
                # Looked at every second, so that a fault can begin while nothing comes.
                left = min(until - now(), 1.0)
                if now() - told > idle:
                    raise Retry(f"nothing came for {idle} s")
                done, _ = await asyncio.wait([coming], timeout=left)
                if not done and left < 1.0:
                    return
                if not done:
                    continue
                if (line := coming.result()) is None:
                    return
                coming = asyncio.ensure_future(anext(lines, None))
                if self._meets(self.faults.cut):
                    raise CutOff(line[: len(line) // 2])
                if self.faults.bookmarks or b'"BOOKMARK"' not in line[:30]:
                    told = now()
                    yield line + b"\n"
            raise CutOff(b"")
        finally:
            coming.cancel()
            await asyncio.wait([coming])
            if not coming.cancelled():
                coming.exception()

    def _arrives(self, path: str) -> None:
        self.requests.append(asyncio.get_running_loop().time())
        if self.faults.away:
            raise Retry(f"{path}: no connection: Name or service not known")

    def _meets(self, share: float) -> bool:
        return share > 0 and self.random.random() < share

    def _ended(self, answer: asyncio.Task[Response]) -> None:
        self._late.discard(answer)
        if not answer.cancelled():
            answer.exception()

    def busiest(self, seconds: float) -> int:
        """The most requests within so many seconds."""
        most, first = 0, 0
        for last, at in enumerate(self.requests):
            while self.requests[first] < at - seconds:
                first += 1
            most = max(most, last - first + 1)
        return most


def _status(code: HTTPStatus, headers: dict[str, str] | None = None) -> Response:
    return Response(code, headers or {}, json.dumps({"kind": "Status", "message": code.phrase}).encode())


@asynccontextmanager
async def proxy(hostile: Hostile) -> AsyncIterator[str]:
    """The address of the same server over HTTP, for processes of their own."""

    async def handle(request: web.Request) -> web.StreamResponse:
        query = [(name, value) for name, value in request.query.items()]
        try:
            if request.query.get("watch") in ("true", "1"):
                return await _streamed(hostile, request, WatchRequest(request.path, query=query, idle=600.0))
            body = await request.read()
            answer = await hostile.send(
                Request(
                    request.method,
                    request.path,
                    query=query,
                    body=json.loads(body) if body else None,
                    content_type=request.content_type,
                    timeout=600.0,
                )
            )
            return web.Response(status=answer.status, headers=_plain(answer), body=answer.body)
        except Relist:
            return web.json_response({"kind": "Status", "code": 410, "reason": "Expired"}, status=410)
        except ReconcilerError as exc:
            if request.transport is not None:
                request.transport.abort()
            raise ConnectionResetError(str(exc)) from exc

    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)  # it would tell of every broken connection
    async with serving(handle) as url:
        yield url


async def _streamed(hostile: Hostile, request: web.Request, watch: WatchRequest) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    response.enable_chunked_encoding()
    try:
        async with hostile.stream(watch) as lines:
            await response.prepare(request)
            async for line in lines:
                await response.write(line + b"\n")
    except CutOff as exc:
        await response.write(exc.sent)
        raise
    return response


def _plain(answer: Response) -> dict[str, str]:
    """Headers that mean something beyond one connection."""
    return {name: answer.headers[name] for name in ("Content-Type", "Retry-After") if name in answer.headers}
