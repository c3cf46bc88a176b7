"""`dra-reconciler dashboard`: through a forwarded port and TLS to the page of a pod, with a token."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from reconciler.api.objects.meta import ObjectKey
from reconciler.cli.connection import Connection
from reconciler.cli.dashboard import show_cluster
from reconciler.cli.exits import NoAnswer, Unreachable
from reconciler.errors import Rejected
from reconciler.operations.serving.access import Token
from reconciler.operations.serving.port import Route, StatusPort
from reconciler.operations.serving.server import serving as serving_status
from tests.tools.http_servers import serving, write_kubeconfig
from tests.tools.patience import PATIENCE
from tests.tools.tuned import tuned

pytestmark = pytest.mark.loopback
CONTROLLER = ObjectKey("gpus", "dra")
PAGE = "<p>é" * 20_000  # more than a message of the websocket


def pod(name: str) -> dict[str, object]:
    ports = [{"name": "status", "containerPort": 8443}]
    spec = {"containers": [{"ports": ports}]}
    return {"metadata": {"name": name}, "spec": spec, "status": {"phase": "Running"}}


class Node:
    """An API server that knows two pods and a Lease, and forwards ports of one pod, as a kubelet does."""

    def __init__(self, url: str) -> None:
        self.host, self.port = url.removeprefix("https://").split(":")
        self.pods = [pod("dra-a"), pod("dra-b")]
        self.refuses = False

    async def handle(self, request: web.Request) -> web.StreamResponse:
        path = request.path
        if path == "/api/v1/namespaces/gpus/pods/dra-b/portforward" and not self.refuses:
            assert request.query["ports"] == "8443"
            return await self._forward(request)
        if path == "/api/v1/namespaces/gpus/pods":
            assert request.query["labelSelector"] == "app.kubernetes.io/name=dra"
            return web.json_response({"items": self.pods})
        if path == "/api/v1/namespaces/monitoring/serviceaccounts/prometheus/token":
            return web.json_response({"status": {"token": "of-the-page"}}, status=201)
        if path == "/apis/coordination.k8s.io/v1/namespaces/gpus/leases":
            return web.json_response({"items": [{"spec": {"holderIdentity": "dra-b_0123456789abcdef"}}]})
        return web.json_response({"kind": "Status", "message": "forbidden"}, status=403)

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=["v4.channel.k8s.io"])
        await socket.prepare(request)
        for channel in (b"\0", b"\1"):
            await socket.send_bytes(channel + (8443).to_bytes(2, "little"))
        reader, writer = await asyncio.open_connection(self.host, int(self.port))

        async def back() -> None:
            while data := await reader.read(1000):
                await socket.send_bytes(b"\0" + data)
            await socket.close()

        answering = asyncio.create_task(back())
        async for message in socket:
            assert message.data[0] == 0
            writer.write(message.data[1:])
        writer.close()
        await answering
        return socket


@asynccontextmanager
async def pages(folder: Path) -> AsyncIterator[tuple[Node, str]]:
    """The node, and the URL of its API server. The page is served as in a pod: with TLS and for a token."""
    (folder / "token").write_text("of-the-page\n")
    status = StatusPort(Token(folder / "token").check)

    async def page(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(text=PAGE + request.query_string, headers={"Content-Security-Policy": "strict"})

    status.add(Route("/", page))
    settings = tuned(status_address="0.0.0.0", status_token_file=folder / "token")
    async with serving_status(status, settings, now=lambda: datetime.now(UTC)) as url:
        node = Node(url)
        async with serving(node.handle) as server:
            yield node, server


def connection(folder: Path, server: str, **user: str) -> Connection:
    file = write_kubeconfig(folder / "config", {"server": server}, me=user)
    return Connection(named=True, server=None, kubeconfig=file, context=None, insecure=False)


@asynccontextmanager
async def shown(chosen: Connection, account: str | None = None, token: str = "") -> AsyncIterator[str]:
    """The URL of the page."""
    urls: asyncio.Queue[str] = asyncio.Queue()
    serving = asyncio.create_task(show_cluster(chosen, CONTROLLER, account, token, 0, urls.put_nowait))
    url = asyncio.create_task(urls.get())
    try:
        await asyncio.wait([url, serving], timeout=PATIENCE, return_when="FIRST_COMPLETED")
        if serving.done():
            await serving
        yield await url
    finally:
        serving.cancel()
        url.cancel()
        await asyncio.wait([serving])


@pytest.mark.parametrize(
    ("user", "account", "token"),
    [
        ({"token": "of-the-page"}, None, ""),
        ({"token": "of-another"}, None, "of-the-page"),
        ({"username": "me", "password": "secret"}, "monitoring/prometheus", ""),
    ],
    ids=["kubeconfig", "token file", "account"],
)
async def test_the_page_of_the_leader_is_shown(
    tmp_path: Path, user: dict[str, str], account: str | None, token: str
):
    async with (
        pages(tmp_path) as (_, server),
        shown(connection(tmp_path, server, **user), account, token) as url,
        aiohttp.ClientSession() as browser,
    ):
        async with browser.get(f"{url}?node=a") as answer:
            assert (answer.status, await answer.text()) == (200, PAGE + "node=a")
            assert answer.headers["Content-Security-Policy"] == "strict"
        async with browser.get(url, headers={"Host": "evil.example"}) as answer:
            assert answer.status == 403  # a page of another site may resolve its name to this address
        async with browser.post(url) as answer:
            assert answer.status == 405


def _without_pods(node: Node) -> None:
    node.pods = [{**pod("dra-a"), "status": {"phase": "Pending"}}]


def _refusing(node: Node) -> None:
    node.refuses = True


@pytest.mark.parametrize(
    ("user", "change", "error", "said"),
    [
        ({"token": "of-the-page"}, _without_pods, NoAnswer, "no running pod in namespace gpus has the label"),
        ({"token": "of-the-page"}, _refusing, Rejected, "status 403: create and get on pods/portforward"),
        ({"token": "of-another"}, None, Unreachable, "the page answers 401 unauthorized"),
        ({"username": "me", "password": "secret"}, None, NoAnswer, "the page needs a token"),
    ],
    ids=["no pods", "no right to forward", "no right to read", "no token"],
)
async def test_what_is_missing_is_said(
    tmp_path: Path,
    user: dict[str, str],
    change: Callable[[Node], None] | None,
    error: type[Exception],
    said: str,
):
    async with pages(tmp_path) as (node, server):
        if change is not None:
            change(node)
        with pytest.raises(error, match=said):
            async with shown(connection(tmp_path, server, **user)):
                pass
