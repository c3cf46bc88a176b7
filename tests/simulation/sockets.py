"""A transport by way of sockets, which lets the clock know what is on its way."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from reconciler.cluster.transport import Query, Response, Transport
from tests.simulation.clock import SimulationLoop


class Awaited:
    """A `Transport` whose answers are waited for in real time, so that none is late by the clock alone."""

    def __init__(self, behind: Transport, loop: SimulationLoop) -> None:
        self._behind = behind
        self._loop = loop

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout: float,  # noqa: ASYNC109 - see Transport
    ) -> Response:
        self._loop.awaited += 1
        try:
            return await self._behind.request(
                method, path, query=query, body=body, content_type=content_type, timeout=timeout
            )
        finally:
            self._loop.awaited -= 1

    @asynccontextmanager
    async def stream(self, path: str, *, query: Query, idle: float) -> AsyncIterator[AsyncIterator[bytes]]:
        self._loop.awaited += 1
        opening = True
        try:
            async with self._behind.stream(path, query=query, idle=idle) as lines:
                self._loop.awaited -= 1
                opening = False
                yield lines
        finally:
            self._loop.awaited -= opening
