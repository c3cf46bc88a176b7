"""One HTTP/1.1 connection for a watch: lines are cut as bytes arrive, and wait for whoever takes them.

A full client has a timer, a buffer and several generators for each piece. Events that come alone are most of
what a process does that has nothing to decide.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator

from reconciler.cluster.connection import Broken, Connection
from reconciler.cluster.decoding import LineSplitter
from reconciler.cluster.headers import Headers
from reconciler.cluster.transport import Response
from reconciler.errors import ReconcilerError, Rejected, Retry


class WatchWire(Connection, AsyncIterator[bytes]):
    """Carries one request, and is the iterator of the lines of its response.

    Lines that came before an error come out before it. Raises Retry if the connection breaks, if nothing
    comes for too long, and for a line that is too long.
    """

    def __init__(
        self, what: str, *, idle: float, longest_line: int, buffer: int, longest_refusal: int
    ) -> None:
        """`what` is watched, for errors. `idle` is in seconds, all others in bytes: `buffer` limits what is
        read ahead of who takes the lines, `longest_refusal` a response that is no watch.
        """
        super().__init__()
        self._what = what
        self._idle = idle
        self._buffer = buffer
        self._longest_refusal = longest_refusal
        self._splitter = LineSplitter(longest_line)
        self._loop = asyncio.get_running_loop()
        self._heard = 0.0
        """When the server last sent something"""
        self._alarm: asyncio.TimerHandle | None = None
        self._opening: asyncio.Future[Response] | None = None
        self._streams = False
        """Whether the response is a watch"""
        self._pieces: list[bytes] = []
        """Of the body of a response that is no watch"""
        self._unread = 0
        """Bytes that came before it was known to be a watch"""
        self._lines: deque[bytes] = deque()
        self._buffered = 0
        """Bytes of the lines"""
        self._paused = False
        self._taker: asyncio.Future[None] | None = None
        self._over = False
        self._failure: ReconcilerError | None = None

    async def opened(self, request: bytes) -> Response:
        """Send a request. Returns the head of a response with status 200, and any other as a whole.

        Raises Retry, and Rejected for a refusal that is too long. Whoever does not take the lines to their
        end must `abort`.
        """
        if self._failure is not None:
            raise self._failure
        assert self._transport is not None
        self._heard = self._loop.time()
        self._alarm = self._loop.call_at(self._heard + self._idle, self._check)
        self._opening = self._loop.create_future()
        self._transport.write(request)
        return await self._opening

    async def __anext__(self) -> bytes:
        while not self._lines:
            if self._failure is not None:
                raise self._failure
            if self._over:
                raise StopAsyncIteration
            self._taker = self._loop.create_future()
            await self._taker
        line = self._lines.popleft()
        self._buffered -= len(line)
        if self._paused and self._buffered <= self._buffer // 2:
            self._paused = False
            self._heard = self._loop.time()  # what was silent until now was this side
            if not self._over and self._transport is not None:
                self._transport.resume_reading()
        return line

    # What asyncio calls.

    def data_received(self, data: bytes) -> None:
        if self._opening is None:  # else it would be taken for the response, or nobody would wait for it
            self._fail(Broken("an answer came before the request"))
            return
        self._heard = self._loop.time()
        if not self._streams:
            self._unread += len(data)
            if self._unread > self._longest_refusal:
                self._fail(Rejected(f"{self._what}: an answer of more than {self._longest_refusal} bytes"))
                return
        self._parse(data)

    # What the parser calls.

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        if self._parser.get_status_code() != 200 or self._over:
            return
        encoding = self._headers.get("Content-Encoding", "identity")
        if encoding != "identity":  # nobody asked for that, so lines are not looked for in it
            self._fail(Rejected(f"{self._what}: the answer is compressed ({encoding})"))
            return
        self._streams = True
        self._respond(b"")

    def on_body(self, body: bytes) -> None:
        if self._streams:
            self._cut(body)
        else:
            self._pieces.append(body)

    def on_message_complete(self) -> None:
        if self._parser.get_status_code() < 200:  # informational: the response follows
            self._headers = Headers()
        elif self._streams:
            self._splitter.end()
            self._end()
        else:
            self._respond(b"".join(self._pieces))
            self._end()

    def _respond(self, body: bytes) -> None:
        if self._opening is not None and not self._opening.done():
            self._opening.set_result(Response(self._parser.get_status_code(), self._headers, body))

    def _cut(self, piece: bytes) -> None:
        """Cut what came into lines, and wake who waits for one."""
        if self._over:
            return
        try:
            for line in self._splitter.lines(piece):
                self._lines.append(line)
                self._buffered += len(line)
        except Retry as exc:
            self._fail(Retry(f"{self._what}: {exc}"))
            return
        if self._lines:
            self._wake()
        if self._buffered > self._buffer and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    def _check(self) -> None:
        """The alarm went off. Something may have come since: to set it anew each time would cost more."""
        now = self._loop.time()
        due = (now if self._paused else self._heard) + self._idle  # while nothing is read, silence is ours
        if due > now:
            self._alarm = self._loop.call_at(due, self._check)
        else:
            self._fail(TimeoutError(f"nothing came for {self._idle:g} s"))

    def _fail(self, exc: Exception) -> None:
        failure = exc if isinstance(exc, ReconcilerError) else Retry(f"{self._what}: {exc}")
        if not self._over and self._opening is not None and not self._opening.done():
            self._opening.set_exception(failure)
        self._end(failure)

    def _end(self, failure: ReconcilerError | None = None) -> None:
        """The response is complete, or there will be no more of it."""
        if self._over:
            return
        self._over, self._failure = True, failure
        if self._alarm is not None:
            self._alarm.cancel()
        self._wake()
        self.abort()

    def _wake(self) -> None:
        if self._taker is not None and not self._taker.done():
            self._taker.set_result(None)
