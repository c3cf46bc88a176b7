"""Serve an ApiServer over HTTP: translates between aiohttp and the server's messages."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from reconciler.api.validation.bodies import MAX_BODY, Refusal, encode, too_large, too_many_requests
from reconciler.embedded.api import ApiServer
from reconciler.embedded.guard import AS_GROUP
from reconciler.embedded.routing import Request, Response, Stream
from reconciler.errors import Rejected

_SHUTDOWN_SECONDS = 1.0


class _Handler:
    """Handles HTTP requests. Watches do not count as in flight."""

    def __init__(self, api: ApiServer, max_in_flight: int) -> None:
        self._api = api
        self._max_in_flight = max_in_flight
        self._in_flight = 0
        self.watches: set[asyncio.Task[None]] = set()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        if self._max_in_flight and self._in_flight >= self._max_in_flight:
            return _refused(too_many_requests())
        self._in_flight += 1
        try:
            answer = await self._answer(request)
            if isinstance(answer, Response):
                response = _complete(answer)
                # Write before returning, so that the request counts as in flight until it is written.
                await response.prepare(request)
                await response.write_eof()
                return response
        finally:
            self._in_flight -= 1
        return await self._stream(request, answer)

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


def _complete(answer: Response) -> web.Response:
    headers = {"Content-Type": answer.content_type, **answer.headers}
    return web.Response(status=answer.status, body=answer.body, headers=headers)


def _refused(refusal: Refusal) -> web.Response:
    headers = {"Retry-After": str(refusal.retry_after)}
    return _complete(Response(refusal.code, encode(refusal.body()), headers=headers))


@asynccontextmanager
async def serve(
    api: ApiServer, host: str = "127.0.0.1", port: int = 0, *, max_in_flight: int = 0
) -> AsyncIterator[str]:
    """Serve `api` over HTTP during the block; yields the URL. Port 0 selects a free port.

    With `max_in_flight`, more concurrent requests get a 429. Leaving the block ends all watches. Raises
    Rejected if the port is taken.
    """
    handler = _Handler(api, max_in_flight)
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
