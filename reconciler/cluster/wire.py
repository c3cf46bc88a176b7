"""One HTTP/1.1 connection for writes: bytes out, the parsed answer in.

A write costs a tenth here of what a full client spends on it (sessions, cookies, redirects, hooks),
and two writes a claim were a third of all our work.
"""

import asyncio

from reconciler.cluster.connection import Connection
from reconciler.cluster.endpoint import LATE
from reconciler.cluster.headers import Headers
from reconciler.cluster.transport import Response
from reconciler.errors import Rejected


class Wire(Connection):
    """Carries one request at a time. After a response it can be used again while `usable`."""

    def __init__(self, longest: int) -> None:
        """A response of more than `longest` bytes, head and body, breaks the connection."""
        super().__init__()
        self._longest = longest
        self._answer: asyncio.Future[Response] | None = None
        self._deadline = 0.0
        """Of the request whose answer is awaited, by the loop's clock"""
        self._alarm: asyncio.TimerHandle | None = None
        """It may go off before the deadline. To set and cancel one for each request would cost more"""
        self._pieces: list[bytes] = []
        self._size = 0

    @property
    def usable(self) -> bool:
        """Whether another request can be sent."""
        return self._transport is not None and not self._transport.is_closing() and self._answer is None

    def exchange(self, request: bytes, deadline: float) -> asyncio.Future[Response]:
        """Send a whole request. The future gets the answer, or Broken, or Rejected for one that is too long,
        or at the `deadline`, by the loop's clock, TimeoutError.

        Whoever does not wait for the answer to its end must `abort`.
        """
        assert self._transport is not None
        assert self._answer is None
        loop = asyncio.get_running_loop()
        self._answer = loop.create_future()
        self._deadline = deadline
        if self._alarm is None or deadline < self._alarm.when():
            self._set_alarm(loop)
        self._transport.write(request)
        return self._answer

    # What asyncio calls.

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop_alarm()

    def data_received(self, data: bytes) -> None:
        self._size += len(data)
        if self._answer is None:  # data without a request: the server closes, or is broken
            self.abort()
        elif self._size > self._longest:
            self._fail(Rejected(f"an answer of more than {self._longest} bytes"))
        else:
            self._parse(data)

    # What the parser calls.

    def on_message_begin(self) -> None:
        if self._answer is None:  # else it would be taken for the response to the next request
            self.abort()

    def on_body(self, body: bytes) -> None:
        self._pieces.append(body)

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        response = Response(status, self._headers, b"".join(self._pieces))
        keeps = not self._to_the_end and self._parser.should_keep_alive()
        self._headers, self._pieces, self._to_the_end = Headers(), [], False
        if status < 200:  # informational: the response follows
            return
        self._size = 0
        answer = self._over()
        if answer is not None:
            answer.set_result(response)
        if not keeps and self._transport is not None:
            self._transport.close()

    def _set_alarm(self, loop: asyncio.AbstractEventLoop) -> None:
        self._stop_alarm()
        self._alarm = loop.call_at(self._deadline, self._check)

    def _stop_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _check(self) -> None:
        """The alarm went off. Other requests may have been sent since it was set."""
        self._alarm = None
        if self._answer is None:
            return
        loop = asyncio.get_running_loop()
        if loop.time() < self._deadline:
            self._set_alarm(loop)
        else:
            self._fail(TimeoutError(LATE))

    def _over(self) -> asyncio.Future[Response] | None:
        """End the exchange. Returns the future of its response, if it is still awaited."""
        answer, self._answer = self._answer, None
        return None if answer is None or answer.done() else answer

    def _fail(self, exc: Exception) -> None:
        answer = self._over()
        if answer is not None:
            answer.set_exception(exc)
        self.abort()
