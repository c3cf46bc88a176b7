"""HTTP servers on sockets of this machine, some of which misbehave, and kubeconfigs that name them."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml
from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.01, handler_cancellation=True)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        yield f"{'https' if tls else 'http'}://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def streaming(*chunks: bytes, then: str) -> Handler:
    """A handler that sends chunks as they are, then ends, breaks the connection, or falls silent."""

    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
        if then == "breaks":
            assert request.transport is not None
            await asyncio.sleep(0.05)  # what was written must leave before
            request.transport.abort()
        if then == "silence":
            await asyncio.Event().wait()
        return response

    return handle


@asynccontextmanager
async def saying(answer: bytes) -> AsyncIterator[tuple[str, asyncio.Event]]:
    """The address of a server that answers a few bytes to whatever comes, and when one was closed."""
    closed = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.read(1)
            writer.write(answer)
            await reader.read()
        except ConnectionError:
            pass
        finally:
            writer.close()
            closed.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", closed
        server.close()


async def whoami(request: web.Request) -> web.Response:
    return web.json_response({"token": request.headers.get("Authorization", "none")})


def write_kubeconfig(path: Path, cluster: dict[str, Any], **users: dict[str, Any]) -> str:
    """A kubeconfig with one cluster and a context for each user, named for it; the first is current."""
    path.write_text(
        yaml.safe_dump(
            {
                "clusters": [{"name": "c", "cluster": cluster}],
                "users": [{"name": name, "user": user} for name, user in users.items()],
                "contexts": [{"name": name, "context": {"cluster": "c", "user": name}} for name in users],
                "current-context": next(iter(users)),
            }
        )
    )
    return str(path)


def write_contexts(path: Path, **servers: str) -> str:
    """A kubeconfig with a context for each server, named for it; the first is current."""
    found = {
        "clusters": [{"name": name, "cluster": {"server": url}} for name, url in servers.items()],
        "contexts": [{"name": name, "context": {"cluster": name}} for name in servers],
        "current-context": next(iter(servers)),
    }
    path.write_text(yaml.safe_dump(found))
    return str(path)
