"""Connections to the status port: how many there may be, and for how long one may take to ask.

Who has not asked yet has to make room for who comes: otherwise connections on which nothing is ever sent
would keep the kubelet out, which restarts a pod that it does not reach.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from aiohttp import web

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

MAX_CONNECTIONS = 256
"""Beyond the handshake of TLS, which has `MAX_SECONDS` for itself"""
MAX_SECONDS = 10.0
"""From the beginning of a connection, or from the answer before, until a request is there, headers and all"""
MAX_HEADERS = 48
"""Of a request, each of `MAX_LINE` bytes at most"""
MAX_LINE = 8190


@dataclass(frozen=True, slots=True)
class Limits:
    """What one who asks may take."""

    connections: int = MAX_CONNECTIONS
    seconds: float = MAX_SECONDS


class Visits(web.Server):
    """Makes a protocol for every connection, and ends those that are too many or too slow."""

    def __init__(self, handler: Handler, limits: Limits) -> None:
        """`handler` answers one request."""

        async def answer(request: web.BaseRequest) -> web.StreamResponse:
            self._answered.add(request.protocol)
            try:
                return await handler(request)
            finally:
                self._answered.discard(request.protocol)

        super().__init__(
            answer,
            handler_cancellation=True,
            access_log=None,
            keepalive_timeout=limits.seconds,  # of the first request as well
            max_headers=MAX_HEADERS,
            max_line_size=MAX_LINE,
            max_field_size=MAX_LINE,
        )
        self._most = limits.connections
        self._open: dict[web.RequestHandler, asyncio.Transport] = {}
        self._answered: set[web.RequestHandler] = set()
        """Whose request is being answered"""

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        """See `web.Server`."""
        super().connection_made(handler, transport)
        self._open[handler] = transport
        if len(self._open) > self._most:
            # The oldest that waits; it is the new one itself where all others are being answered.
            one = next(each for each in self._open if each not in self._answered)
            self._open.pop(one).abort()

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        """See `web.Server`."""
        super().connection_lost(handler, exc)
        self._open.pop(handler, None)
