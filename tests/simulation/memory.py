"""The embedded server without sockets: requests are function calls, watches are iterators."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager

from reconciler.cluster.answers import refusal
from reconciler.cluster.transport import Query, Response
from reconciler.embedded import ApiServer, Request, Stream
from reconciler.errors import Retry


class InMemory:
    """A `Transport` to a server in the same loop. It answers at once."""

    def __init__(self, api: ApiServer) -> None:
        self._api = api

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout: float,  # noqa: ASYNC109, ARG002 - see Transport
    ) -> Response:
        headers = {"Content-Type": content_type, "Accept": "application/json"}
        answer = self._api.handle(Request(method, path, dict(query), headers, body or b""))
        assert not isinstance(answer, Stream)
        return Response(answer.status, answer.headers, answer.body)

    @asynccontextmanager
    async def stream(self, path: str, *, query: Query, idle: float) -> AsyncIterator[AsyncIterator[bytes]]:
        answer = self._api.handle(Request("GET", path, dict(query), {"Accept": "application/json"}))
        if not isinstance(answer, Stream):
            raise refusal("GET", path, Response(answer.status, answer.headers, answer.body))
        async with aclosing(answer.chunks) as chunks, aclosing(_lines(chunks, idle)) as lines:
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
