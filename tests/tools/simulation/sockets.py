"""A transport by way of sockets, which lets the clock know what is on its way."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from reconciler.cluster.transport import Request, Response, Transport, WatchRequest
from tests.tools.simulation.clock import SimulationLoop


class Awaited:
    """A `Transport` whose answers are waited for in real time, so that none is late by the clock alone."""

    def __init__(self, behind: Transport, loop: SimulationLoop) -> None:
        self._behind = behind
        self._loop = loop

    async def send(self, request: Request) -> Response:
        self._loop.awaited += 1
        try:
            return await self._behind.send(request)
        finally:
            self._loop.awaited -= 1

    @asynccontextmanager
    async def stream(self, request: WatchRequest) -> AsyncIterator[AsyncIterator[bytes]]:
        self._loop.awaited += 1
        opening = True
        try:
            async with self._behind.stream(request) as lines:
                self._loop.awaited -= 1
                opening = False
                yield lines
        finally:
            self._loop.awaited -= opening
