"""Serve an ApiServer over HTTP: translates between aiohttp and the server's messages."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from reconciler.api.validation.bodies import MAX_BODY, Refusal, encode, too_large
from reconciler.embedded.api import ApiServer
from reconciler.embedded.guard import AS_GROUP
from reconciler.embedded.routing import Request, Response, Stream
from reconciler.errors import Rejected

_SHUTDOWN_SECONDS = 1.0


class _Handler:
    """Handles HTTP requests."""

    def __init__(self, api: ApiServer) -> None:
        self._api = api
        self.watches: set[asyncio.Task[None]] = set()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        answer = await self._answer(request)
        if isinstance(answer, Stream):
            return await self._stream(request, answer)
        headers = {"Content-Type": answer.content_type, **answer.headers}
        return web.Response(status=answer.status, body=answer.body, headers=headers)

    async def _answer(self, request: web.BaseRequest) -> Response | Stream:
        try:
            body = await _read(request)
        except Refusal as refusal:
            return Response(refusal.code, encode(refusal.body()))
        groups = request.headers.getall(AS_GROUP, ())
        return self._api.handle(
            Request(request.method, request.path, request.query, request.headers, body, groups)
        )

    async def _stream(self, request: web.BaseRequest, stream: Stream) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": stream.content_type})
        response.enable_chunked_encoding()
        task = asyncio.current_task()
        assert task is not None
        self.watches.add(task)
        try:
            await response.prepare(request)
            async for chunk in stream.chunks:
                await response.write(chunk)
            await response.write_eof()
        except ConnectionError:
            # The client disconnected between two events.
            return response
        finally:
            self.watches.discard(task)
        return response


class _Connection(web.RequestHandler):
    """Repeats nothing of a malformed request to its sender: aiohttp quotes it, and it may hold a token."""

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """See `web.RequestHandler`."""
        return super().handle_error(request, status, exc, message and "malformed HTTP request\n")


class _Server(web.Server):
    def __call__(self) -> web.RequestHandler:
        """See `web.Server`."""
        options: dict[str, Any] = {"access_log": None}
        return _Connection(self, loop=asyncio.get_running_loop(), **options)


async def _read(request: web.BaseRequest) -> bytes:
    if not request.can_read_body:
        return b""
    if (request.content_length or 0) > MAX_BODY:
        raise too_large(MAX_BODY)
    parts, size = [], 0
    async for part in request.content.iter_any():
        size += len(part)
        if size > MAX_BODY:
            raise too_large(MAX_BODY)
        parts.append(part)
    return b"".join(parts)


@asynccontextmanager
async def serve(api: ApiServer, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[str]:
    """Serve `api` over HTTP during the block; yields the URL. Port 0 selects a free port.

    Leaving the block ends all watches. Raises Rejected if the port is taken.
    """
    handler = _Handler(api)
    runner = web.ServerRunner(
        _Server(handler.handle, handler_cancellation=True), shutdown_timeout=_SHUTDOWN_SECONDS
    )
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as exc:
            why = (exc.strerror or str(exc)).rpartition("): ")[2]  # asyncio says before which address it is
            raise Rejected(f"cannot listen on {host} port {port}: {why}; name another --port") from exc
        bound = runner.addresses[0]
        yield f"http://{host}:{bound[1]}"
    finally:
        for task in handler.watches:
            task.cancel()
        await runner.cleanup()
