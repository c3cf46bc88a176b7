"""`dra-reconciler dashboard`: the status page in a browser, of the controller in a cluster or of manifests.

The page of a cluster is in a pod and wants a token, which no browser sends. So this process serves it on this
machine: it forwards a port to the pod, as `kubectl port-forward` does, and adds the token to each request.
"""

import asyncio
import signal
import webbrowser
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import click
from aiohttp import web

from reconciler.api.objects.meta import ObjectKey
from reconciler.cli.cluster import reached
from reconciler.cli.configured import deployment_option
from reconciler.cli.connection import Connection
from reconciler.cli.convert import read_for_server
from reconciler.cli.exits import Exit, NoAnswer, Unreachable, exit_on_errors
from reconciler.cli.options import cluster_options, files_option, strict_option
from reconciler.cli.output import remark
from reconciler.cluster.client import Client
from reconciler.cluster.http import CONNECT_SECONDS, HttpTransport
from reconciler.cluster.kinds import Resource
from reconciler.errors import ReconcilerError
from reconciler.operations.log_setup import configure
from reconciler.operations.serving.access import Denied, local_only
from reconciler.operations.serving.port import StatusPort

PORT = "status"
"""The name of the port in the pod"""
TOKEN_SECONDS = 8 * 3600
"""How long the token of another account is valid, unless the server shortens it"""
DATA, ERROR = 0, 1
"""Channels of a forwarded port"""
_HOP = {"connection", "content-encoding", "content-length", "date", "server", "transfer-encoding"}
"""Headers of an answer that this process makes itself"""
Authorization = Callable[[], Awaitable[str]]


@click.command()
@files_option(required=False)
@strict_option
@cluster_options
@deployment_option()
@click.option(
    "--as-account",
    "account",
    metavar="[NAMESPACE/]NAME",
    help="Read the page as this service account, with a token that you may create for it.",
)
@click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Token of the page, where the controller has a status_token_file.",
)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Local port.  [default: a free one]")
@click.option("--no-open", "browse", is_flag=True, flag_value=False, default=True, help="Only print the URL.")
def dashboard(
    connection: Connection,
    files: tuple[str, ...],
    deployment: ObjectKey,
    account: str | None,
    token_file: Path | None,
    port: int,
    browse: bool,
) -> None:
    """Open the status page in a browser, and serve it on this machine until SIGINT or SIGTERM.

    Without -f, it is the page of the leading pod in a cluster. You need these rights in its namespace: list
    pods, create and get pods/portforward, list leases.coordination.k8s.io. And get on the non-resource URLs
    /, /events, /fragments and /explanation. If your kubeconfig has no token, --as-account names an account
    with the latter, and you need create on serviceaccounts/token.

    With -f, the claims of the manifests are allocated on the embedded server, and its page is shown.

    While it runs, everybody on this machine can read the page.

    \b
    Examples:
      dra-reconciler dashboard
      dra-reconciler dashboard --no-open -f manifests/
    """
    opened = partial(_open, browse=browse)
    if files:
        configure("warning")
        raws = read_for_server(files)
        with exit_on_errors(Exit.UNREACHABLE):
            asyncio.run(_of_manifests(raws, port, opened))
        return
    with exit_on_errors(Exit.UNREACHABLE):
        token = token_file.read_text().strip() if token_file is not None else ""
        asyncio.run(show_cluster(connection, deployment, account, token, port, opened))


def _open(url: str, *, browse: bool) -> None:
    click.echo(f"dashboard: {url}")
    if browse and not webbrowser.open(url):
        remark("note: no browser was found: open the URL in one")


async def _of_manifests(raws: list[dict[str, Any]], port: int, opened: Callable[[str], None]) -> None:
    from reconciler.cli.run import reconcile  # noqa: PLC0415 - imports what decides
    from reconciler.settings import load  # noqa: PLC0415

    tasks = []

    async def when_there(url: str, status: StatusPort) -> None:
        while "/" not in status.paths:  # noqa: ASYNC110 - for a moment, and nothing else waits
            await asyncio.sleep(0.05)
        opened(url)

    def on_status(url: str, status: StatusPort) -> None:
        tasks.append(asyncio.create_task(when_there(url, status)))

    await reconcile(load({"embedded": True, "status_port": port}, None), raws, on_status=on_status)


async def show_cluster(
    connection: Connection,
    deployment: ObjectKey,
    account: str | None,
    token: str,
    port: int,
    opened: Callable[[str], object],
) -> None:
    """Serve the page of a cluster until a signal. `opened` gets its URL.

    Raises ReconcilerError, OSError or NoAnswer.
    """
    stop = asyncio.Event()
    for one in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(one, stop.set)
    async with reached(connection) as transport:
        client = Client(transport)
        namespace = deployment.namespace
        pod, number = await _leading_pod(client, deployment)
        remark(f"pod {namespace}/{pod}")
        authorization = await _authorization(client, transport, account, token, namespace)
        async with (
            _forwarded(transport, namespace, pod, number) as session,
            _served(session, authorization, port) as url,
        ):
            opened(url)
            await stop.wait()


async def _leading_pod(client: Client, deployment: ObjectKey) -> tuple[str, int]:
    """The name of a running pod, the leader's if it is known, and its port of the page."""
    namespace, name = deployment
    label = f"app.kubernetes.io/name={name}"
    found = await client.fetch(f"/api/v1/namespaces/{namespace}/pods", [("labelSelector", label)])
    pods = {
        one["metadata"]["name"]: port["containerPort"]
        for one in found["items"]
        if one.get("status", {}).get("phase") == "Running"
        for container in one["spec"]["containers"]
        for port in container.get("ports") or ()
        if port.get("name") == PORT
    }
    if not pods:
        raise NoAnswer(
            f"no running pod in namespace {namespace} has the label {label} and a port {PORT!r}: name the "
            "controller with --deployment NAMESPACE/NAME. The log of `run --embedded` has the URL of its page"
        )
    holders: list[str] = []
    try:
        leases = await client.fetch(f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases")
        holders = [one["spec"].get("holderIdentity") or "" for one in leases["items"]]
    except ReconcilerError as exc:
        remark(f"note: a standby's page may be shown, without pending claims: {exc}")
    leading = [pod for pod in pods if any(holder.startswith(f"{pod}_") for holder in holders)]
    chosen = min(leading or pods)
    return chosen, pods[chosen]


async def _authorization(
    client: Client, transport: HttpTransport, account: str | None, token: str, namespace: str
) -> Authorization:
    """How to get the header with the token, each time. Raises ReconcilerError or NoAnswer."""
    given = f"Bearer {token}" if token else ""
    if account is not None:
        within, _, name = account.rpartition("/")
        made = await client.create(
            Resource("TokenRequest", "", "v1", f"serviceaccounts/{name}/token", namespaced=True),
            {
                "kind": "TokenRequest",
                "apiVersion": "authentication.k8s.io/v1",
                "metadata": {"namespace": within or namespace},
                "spec": {"expirationSeconds": TOKEN_SECONDS},
            },
        )
        given = f"Bearer {made['status']['token']}"

    async def header() -> str:
        return given or (await transport.credentials(CONNECT_SECONDS)).get("Authorization", "")

    if not (await header()).startswith("Bearer "):
        raise NoAnswer(
            "the page needs a token, and the kubeconfig has none (certificates and passwords do not do): "
            "name an account that may read the page with --as-account NAMESPACE/NAME, or its --token-file"
        )
    return header


@asynccontextmanager
async def _forwarded(
    transport: HttpTransport, namespace: str, pod: str, port: int
) -> AsyncIterator[aiohttp.ClientSession]:
    """A session of which each connection goes to the port of the pod."""
    async with transport.port_forward(namespace, pod, port):
        pass  # so that a refusal is said at once, and not by each connection

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with transport.port_forward(namespace, pod, port) as socket:
                sending = asyncio.create_task(_send(reader, socket))
                try:
                    await _receive(socket, writer)
                finally:
                    sending.cancel()
        except ReconcilerError as exc:
            remark(f"Error: {exc}")
        finally:
            writer.close()

    listening = await asyncio.start_server(carry, "127.0.0.1")
    # The API server and the node vouch for the pod; its certificate names no host.
    connector = aiohttp.TCPConnector(ssl=False)
    host, number = listening.sockets[0].getsockname()
    async with (
        listening,
        aiohttp.ClientSession(
            f"https://{host}:{number}",
            connector=connector,
            timeout=aiohttp.ClientTimeout(total=None),
            headers={"Accept-Encoding": "identity"},
        ) as session,
    ):
        yield session


async def _send(reader: asyncio.StreamReader, socket: aiohttp.ClientWebSocketResponse) -> None:
    while data := await reader.read(2**15):
        await socket.send_bytes(bytes([DATA]) + data)
    await socket.close()


async def _receive(socket: aiohttp.ClientWebSocketResponse, writer: asyncio.StreamWriter) -> None:
    begun = set()
    async for message in socket:
        channel, data = message.data[0], message.data[1:]
        if channel not in begun:  # this is the number of the port
            begun.add(channel)
        elif channel == ERROR:
            remark(f"Error: port-forward: {data.decode(errors='replace').strip()}")
            return
        else:
            writer.write(data)
            await writer.drain()


@asynccontextmanager
async def _served(
    session: aiohttp.ClientSession, authorization: Authorization, port: int
) -> AsyncIterator[str]:
    """Serve the page on this machine; yields its URL. Raises NoAnswer if it cannot be read."""

    async def ask(method: str, path: str) -> aiohttp.ClientResponse:
        return await session.request(method, path, headers={"Authorization": await authorization()})

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        try:
            await local_only(request)
        except Denied as exc:
            return web.Response(status=exc.status, text=str(exc))
        if request.method not in ("GET", "HEAD"):
            return web.Response(status=405, text="method not allowed")
        try:
            async with await ask(request.method, request.path_qs) as found:
                kept = {name: text for name, text in found.headers.items() if name.lower() not in _HOP}
                response = web.StreamResponse(status=found.status, headers=kept)
                await response.prepare(request)
                async for chunk in found.content.iter_any():
                    await response.write(chunk)
        except (aiohttp.ClientError, ReconcilerError) as exc:
            return web.Response(status=502, text=f"the pod does not answer: {exc}")
        return response

    try:
        async with await ask("GET", "/") as found:
            said = (await found.text()).strip()
    except aiohttp.ClientError as exc:
        raise Unreachable(f"the pod does not answer: {exc}") from exc
    if found.status != 200:
        raise Unreachable(f"the page answers {found.status} {said[:200]}: see the rights in --help")
    runner = web.ServerRunner(web.Server(answer, access_log=None), shutdown_timeout=1.0)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, "127.0.0.1", port).start()
        except OSError as exc:
            raise NoAnswer(f"cannot listen on port {port}: {exc.strerror}; name another --port") from exc
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/"
    finally:
        await runner.cleanup()
