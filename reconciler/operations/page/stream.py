"""Server-sent events: which parts of somebody's page have which version, told when that changes."""

import asyncio
import json
from collections.abc import Callable
from datetime import datetime

from aiohttp import web

from reconciler.operations.page.query import Query
from reconciler.operations.page.sources import Sources
from reconciler.operations.page.view import View

MOST_CLIENTS = 12
"""Less than what the port answers at once, so that health and metrics are answered beside them"""
PAUSE_SECONDS = 0.5
"""Least time between two messages to one client: changes come in bursts"""
BEAT_SECONDS = 15.0
"""Longest time without a word, so that proxies keep the connection and a dead one is noticed"""
WRITE_SECONDS = 10.0
"""Whoever does not read for so long is let go"""
RETRY_MS = 3000


class Stream:
    """Serves one page to each of a few clients. Nothing is kept for a client but what it was told last."""

    def __init__(self, view: View, sources: Sources, stop: asyncio.Event) -> None:
        self._view = view
        self._sources = sources
        self._stop = stop
        self.clients = 0

    async def serve(self, request: web.BaseRequest) -> web.StreamResponse:
        """Tell a client until it goes, or the process ends. Cancelled: the client is gone."""
        if self.clients >= MOST_CLIENTS:
            return web.Response(status=503, text="too many pages are open\n", headers={"Retry-After": "30"})
        self.clients += 1
        try:
            response = web.StreamResponse(
                headers={
                    "Content-Type": "text/event-stream",
                    "Cache-Control": "no-store",
                    "X-Content-Type-Options": "nosniff",
                    "X-Accel-Buffering": "no",
                }
            )
            await response.prepare(request)
            if request.method != "HEAD":
                await self._tell(response, Query.read(request.query))
            return response
        finally:
            self.clients -= 1

    async def _tell(self, response: web.StreamResponse, query: Query) -> None:
        told: dict[str, str] | None = None
        await _write(response, f"retry: {RETRY_MS}\n\n")
        spoken = self._sources.clock()
        while not self._stop.is_set():
            versions = await self._view.versions(query)
            now = self._sources.clock()
            if versions != told:
                await _write(response, message(versions, self._sources.now))
                told, spoken = versions, now
            elif now - spoken >= BEAT_SECONDS:
                await _write(response, ": still here\n\n")
                spoken = now
            try:
                async with asyncio.timeout(PAUSE_SECONDS):
                    await self._stop.wait()
            except TimeoutError:
                continue


def message(versions: dict[str, str], now: Callable[[], datetime]) -> str:
    """One event. All versions every time: a client that missed some needs nothing else."""
    return f"event: state\ndata: {json.dumps({'versions': versions, 'at': clock_time(now())})}\n\n"


def clock_time(now: datetime) -> str:
    """A time of day, with its zone."""
    return f"{now:%Y-%m-%d %H:%M:%S %Z}"


async def _write(response: web.StreamResponse, text: str) -> None:
    try:
        async with asyncio.timeout(WRITE_SECONDS):
            await response.write(text.encode())
    except TimeoutError as exc:
        raise ConnectionResetError("the client does not read") from exc
