"""Limits on connections to the status port: their number, and the time to send a request.

A new connection replaces the oldest one without a request. Otherwise idle connections could block the
kubelet, which restarts a pod that does not answer its probes.
"""

import asyncio
from collections.abc import Awaitable, Callable

from aiohttp import web
from msgspec import Struct

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

MAX_CONNECTIONS = 256
"""Connections after the TLS handshake, which has its own timeout of `MAX_SECONDS`"""
MAX_SECONDS = 10.0
"""From the start of a connection, or the previous response, until a request with its headers is complete"""
MAX_HEADERS = 48
"""Headers of a request, each of at most `MAX_LINE` bytes"""
MAX_LINE = 8190


class Limits(Struct, frozen=True):
    """Limits of all connections."""

    connections: int = MAX_CONNECTIONS
    seconds: float = MAX_SECONDS


class LimitedServer(web.Server):
    """An HTTP server that closes connections beyond the limits."""

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
            keepalive_timeout=limits.seconds,  # also for the first request
            max_headers=MAX_HEADERS,
            max_line_size=MAX_LINE,
            max_field_size=MAX_LINE,
        )
        self._max_connections = limits.connections
        self._open: dict[web.RequestHandler, asyncio.Transport] = {}
        self._answered: set[web.RequestHandler] = set()
        """Connections with a request in progress"""

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        """See `web.Server`."""
        super().connection_made(handler, transport)
        self._open[handler] = transport
        if len(self._open) > self._max_connections:
            # The oldest without a request. If all others have one, this is the new connection itself.
            idle = next(each for each in self._open if each not in self._answered)
            self._open.pop(idle).abort()

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        """See `web.Server`."""
        super().connection_lost(handler, exc)
        self._open.pop(handler, None)
