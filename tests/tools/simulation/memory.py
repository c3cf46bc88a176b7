"""The embedded server without sockets: requests are function calls, watches are iterators."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager

from reconciler.cluster.transport import Request, Response, WatchRequest, refusal
from reconciler.embedded import ApiServer, Stream
from reconciler.embedded import Request as Received
from reconciler.errors import Retry


class InMemory:
    """A `Transport` to a server in the same loop. It answers at once."""

    def __init__(self, api: ApiServer) -> None:
        self._api = api

    async def send(self, request: Request) -> Response:
        headers = {"Content-Type": request.content_type, "Accept": "application/json"}
        body = b"" if request.body is None else json.dumps(request.body).encode()
        received = Received(request.method, request.path, dict(request.query), headers, body)
        answer = self._api.handle(received)
        assert not isinstance(answer, Stream)
        return Response(answer.status, answer.headers, answer.body)

    @asynccontextmanager
    async def stream(self, request: WatchRequest) -> AsyncIterator[AsyncIterator[bytes]]:
        path, query = request.path, dict(request.query)
        answer = self._api.handle(Received("GET", path, query, {"Accept": "application/json"}))
        if not isinstance(answer, Stream):
            raise refusal("GET", path, Response(answer.status, answer.headers, answer.body))
        async with aclosing(answer.chunks) as chunks, aclosing(_lines(chunks, request.idle)) as lines:
            yield lines


async def _lines(chunks: AsyncGenerator[bytes, None], idle: float) -> AsyncGenerator[bytes, None]:
    while True:
        try:
            async with asyncio.timeout(idle):
                chunk = await anext(chunks)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise Retry(f"nothing came for {idle} s") from None
        for line in chunk.splitlines():
            yield line
