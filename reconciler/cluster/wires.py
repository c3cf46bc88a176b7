"""A connection pool for writes."""

import asyncio
from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import urlencode

from reconciler.cluster.endpoint import Endpoint, NeverSent
from reconciler.cluster.transport import Query, Request, Response
from reconciler.cluster.wire import Wire

IDLE_SECONDS = 15.0
"""A connection that was not used for so long is not used again: servers close theirs after a minute or so,
and a write that goes out at that very moment would be one without an answer.
"""


class Wires:
    """As many connections to one server as there are concurrent writes, up to a limit."""

    def __init__(self, endpoint: Endpoint, *, longest: int, most: int) -> None:
        """`longest` limits a response, in bytes; `most` the connections."""
        self._endpoint = endpoint
        self._longest = longest
        self._free = asyncio.Semaphore(most)
        self._idle: list[tuple[Wire, float]] = []
        self._closed = False

    async def send(self, request: Request, headers: Mapping[str, str], deadline: float) -> Response:
        """Send a request once with these headers, and wait for its response.

        The `deadline`, by the loop's clock, counts in place of the request's timeout: renewing credentials
        may have used some of that.

        Raises NeverSent, and Rejected for headers that cannot be sent; any other OSError, a timeout among
        them, leaves open whether the server took the request. Cancelled, the connection is closed, so
        that its answer is not taken for another's.
        """
        message = self._message(request, headers)
        wire = await self._take(deadline)
        try:
            response = await wire.exchange(message, deadline)
        except BaseException:
            wire.abort()
            raise
        else:
            if self._closed:
                wire.abort()
            elif wire.usable:
                self._idle.append((wire, asyncio.get_running_loop().time()))
            return response
        finally:
            self._free.release()

    def close(self) -> None:
        """Close idle connections now, and the others after their response."""
        self._closed = True
        for wire, _ in self._idle:
            wire.abort()
        self._idle.clear()

    def _message(self, request: Request, headers: Mapping[str, str]) -> bytes:
        head = self._endpoint.head(request.method, request.path, _encoded(tuple(request.query)), headers)
        body = request.body or b""
        return f"{head}Content-Length: {len(body)}\r\n\r\n".encode("ascii") + body

    async def _take(self, deadline: float) -> Wire:
        """A connection for exclusive use. The caller releases `_free` afterwards."""
        try:
            if self._free.locked():
                async with asyncio.timeout_at(deadline):
                    await self._free.acquire()
            else:  # does not wait
                await self._free.acquire()
        except TimeoutError as exc:
            raise NeverSent("all connections were busy") from exc
        try:
            return self._kept() or await self._endpoint.connect(lambda: Wire(self._longest), deadline)
        except BaseException:
            self._free.release()
            raise

    def _kept(self) -> Wire | None:
        oldest = asyncio.get_running_loop().time() - IDLE_SECONDS
        while self._idle:
            wire, since = self._idle.pop()  # the last one used, so that the others expire
            if wire.usable and since > oldest:
                return wire
            wire.abort()
        return None


@lru_cache(64)
def _encoded(query: Query) -> str:
    """Nearly all writes have the same query."""
    return urlencode(query)
