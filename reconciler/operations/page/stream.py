"""Server-sent events with the versions of the parts of a page, sent when they change."""

import asyncio
import json
from datetime import datetime

from aiohttp import web

from reconciler.operations.page.query import Query
from reconciler.operations.page.sources import Sources
from reconciler.operations.page.view import View

MOST_CLIENTS = 12
"""Fewer than the concurrent requests of the port, so that health and metrics still answer"""
PAUSE_SECONDS = 0.5
"""Minimum time between two messages to a client: changes come in bursts"""
BEAT_SECONDS = 15.0
"""Maximum time without a message: proxies keep the connection. The page takes silence of three for a broken
one."""
WRITE_SECONDS = 10.0
"""Timeout of a write to a client"""
RETRY_MS = 3000


class Stream:
    """Sends the versions of pages to a few clients. The only state of a client is its last message."""

    def __init__(self, view: View, sources: Sources, stop: asyncio.Event) -> None:
        self._view = view
        self._sources = sources
        self._stop = stop
        self.clients = 0

    async def serve(self, request: web.BaseRequest) -> web.StreamResponse:
        """Send versions until the process ends. Cancelled if the client disconnects."""
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
                await self._send(response, Query.read(request.query))
            return response
        finally:
            self.clients -= 1

    async def _send(self, response: web.StreamResponse, query: Query) -> None:
        sent: dict[str, str] | None = None
        await _write(response, f"retry: {RETRY_MS}\n\n")
        last = self._sources.clock()
        while not self._stop.is_set():
            versions = await self._view.versions(query)
            now = self._sources.clock()
            if versions != sent:
                await _write(response, message("state", self._sources.now(), versions))
                sent, last = versions, now
            elif now - last >= BEAT_SECONDS:
                await _write(response, message("alive", self._sources.now()))
                last = now
            try:
                async with asyncio.timeout(PAUSE_SECONDS):
                    await self._stop.wait()
            except TimeoutError:
                continue


def message(kind: str, now: datetime, versions: dict[str, str] | None = None) -> str:
    """An event: `state` with all versions, so that a client may miss earlier ones, or `alive` without."""
    data: dict[str, object] = {"at": clock_time(now), "time": now.isoformat()}
    if versions is not None:
        data["versions"] = versions
    return f"event: {kind}\ndata: {json.dumps(data)}\n\n"


def clock_time(now: datetime) -> str:
    """Date and time with the zone."""
    return f"{now:%Y-%m-%d %H:%M:%S %Z}"


async def _write(response: web.StreamResponse, text: str) -> None:
    try:
        async with asyncio.timeout(WRITE_SECONDS):
            await response.write(text.encode())
    except TimeoutError as exc:
        raise ConnectionResetError("the client does not read") from exc
