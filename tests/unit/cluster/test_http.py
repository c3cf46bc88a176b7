"""The transport against servers that misbehave, on real sockets of this machine."""

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml
from aiohttp import web
from kubernetes_asyncio.client import ApiClient, Configuration

from reconciler.api.objects.meta import ObjectKey
from reconciler.cluster import credentials, http
from reconciler.cluster.client import Client
from reconciler.cluster.http import HttpTransport, connect
from reconciler.cluster.kinds import NODE
from reconciler.cluster.transport import Request, WatchRequest
from reconciler.errors import Rejected, Relist, Retry, Undecided
from tests.tools.patience import PATIENCE

pytestmark = pytest.mark.loopback

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
KEY = ObjectKey("", "n")


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


async def lines_of(server: str, idle: float = 5.0) -> tuple[list[bytes], Exception | None]:
    lines: list[bytes] = []
    try:
        watch = WatchRequest("/x", idle=idle)
        async with connect(server=server) as transport, transport.stream(watch) as stream:
            async for line in stream:
                lines.append(line)  # noqa: PERF401 - those before an error count
    except Retry as exc:
        return lines, exc
    return lines, None


async def test_a_stream_ends_without_its_cut_last_line():
    async with serving(streaming(b'{"a"', b':1}\n{"b":2}\n{"c', then="end")) as server:
        assert await lines_of(server) == ([b'{"a":1}', b'{"b":2}'], None)


async def test_a_connection_that_breaks_is_tried_again():
    async with serving(streaming(b'{"a":1}\n{"b', then="breaks")) as server:
        lines, error = await lines_of(server)
    assert lines == [b'{"a":1}']
    assert type(error) is Retry


async def test_a_silent_stream_is_given_up():
    async with serving(streaming(b'{"a":1}\n', then="silence")) as server:
        lines, error = await lines_of(server, idle=0.1)
    assert lines == [b'{"a":1}']
    assert type(error) is Retry


async def test_a_long_line_arrives_whole():
    """Longer than the buffer from which the library itself reads lines."""
    line = b"x" * (3 * 2**20)
    async with serving(streaming(line + b"\n", then="end")) as server:
        lines, error = await lines_of(server)
    assert (lines, error) == ([line], None)


@pytest.mark.parametrize(("then", "error"), [("end", type(None)), ("breaks", Retry), ("silence", Retry)])
async def test_a_stream_through_a_proxy_is_like_any_other(monkeypatch, then, error):
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    async with serving(streaming(b'{"a"', b':1}\n\n{"b":2}\n{"c', then=then)) as proxy:
        monkeypatch.setenv("http_proxy", proxy)
        lines, caught = await lines_of(
            "http://a.cluster.invalid", idle=0.5 if then == "silence" else PATIENCE
        )
    assert lines == [b'{"a":1}', b'{"b":2}']
    assert type(caught) is error


async def test_the_status_of_a_stream_is_an_error_like_any_other():
    async def handle(request: web.Request) -> web.Response:
        return web.json_response({"kind": "Status", "message": "too old"}, status=410)

    async with serving(handle) as server, connect(server=server) as transport:
        with pytest.raises(Relist, match="too old"):
            async with transport.stream(WatchRequest("/x", query=[("a", "b c"), ("d", "ü&=")], idle=1)):
                pass


async def test_a_refused_connection_was_never_a_write():
    async with serving(streaming(then="end")) as server:
        pass
    said = r"no connection to 127\.0\.0\.1:\d+: Connection refused: is the server running, and"
    async with connect(server=server) as transport:
        client = Client(transport)
        for request in (client.get(NODE, KEY), client.patch(NODE, KEY, {})):
            with pytest.raises(Retry, match=said) as caught:
                await request
            assert type(caught.value) is Retry


@pytest.mark.parametrize("how", ["breaks", "silence"])
async def test_a_write_without_an_answer_is_undecided_and_not_sent_twice(how):
    """Sent again behind our back, an applied write would look like a conflict."""
    seen: list[str] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        seen.append(request.method)
        await request.read()
        if how == "silence":
            await asyncio.Event().wait()
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async with serving(handle) as server, connect(server=server) as transport:
        seconds = 2.0 if how == "silence" else PATIENCE  # by then it was sent
        client = Client(transport, read_seconds=seconds, write_seconds=seconds)
        with pytest.raises(Undecided) as undecided:
            await client.patch(NODE, KEY, {"a": 1})
        assert seen == ["PATCH"]
        with pytest.raises(Retry) as caught:
            await client.get(NODE, KEY)
        assert type(caught.value) is Retry
        for error in (undecided.value, caught.value):
            assert "TimeoutError" not in str(error)
            assert ("no answer in time" in str(error)) == (how == "silence")


async def test_a_request_arrives_as_it_was_meant():
    async def handle(request: web.Request) -> web.Response:
        return web.json_response(
            {
                "query": list(request.query.items()),
                "type": request.headers["Content-Type"],
                "agent": request.headers["User-Agent"],
                "body": await request.json(),
            }
        )

    async with serving(handle) as server, connect(server=f"{server}/") as transport:
        request = Request(
            "PATCH",
            "/p",
            query=[("continue", "a+b/=&ü")],
            body=b'{"a":null}',
            content_type="application/merge-patch+json",
            timeout=PATIENCE,
        )
        answer = await transport.send(request)
    assert yaml.safe_load(answer.body) == {
        "query": [["continue", "a+b/=&ü"]],
        "type": "application/merge-patch+json",
        "agent": "dra-reconciler",
        "body": {"a": None},
    }


@pytest.mark.parametrize("token", ["", "Bearer t"])
@pytest.mark.parametrize("proxied", [True, False])
async def test_a_login_in_the_address_goes_with_every_request_without_a_token(monkeypatch, proxied, token):
    seen: list[tuple[str, str | None]] = []

    async def handle(request: web.Request) -> web.Response:
        seen.append((request.method, request.headers.get("Authorization")))
        return web.json_response({})

    async with serving(handle) as server:
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        host = "cluster.invalid" if proxied else server.removeprefix("http://")
        if proxied:
            monkeypatch.setenv("http_proxy", server)
        configuration = Configuration(host=f"http://u:p%40%C3%BC@{host}")
        if token:
            configuration.api_key = {"BearerToken": token}
        async with ApiClient(configuration) as api:
            transport = HttpTransport(api)
            for method in ("GET", "PATCH"):
                await transport.send(Request(method, "/x", timeout=PATIENCE))
            async with transport.stream(WatchRequest("/x", idle=PATIENCE)) as lines:
                assert [line async for line in lines] == []
            transport.close()
    login = token or "Basic " + base64.b64encode("u:p@ü".encode()).decode()
    assert seen == [("GET", login), ("PATCH", login), ("GET", login)]


@pytest.mark.parametrize("how", ["left", "cancelled"])
async def test_a_watch_that_nobody_takes_any_more_is_closed(how):
    opened = asyncio.Event()

    async def watch(address: str) -> None:
        async with connect(server=f"http://{address}") as transport:
            async with transport.stream(WatchRequest("/x", idle=PATIENCE)) as lines:
                opened.set()
                if how == "cancelled":
                    await anext(lines)
            await closed.wait()

    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with asyncio.timeout(PATIENCE), saying(head) as (address, closed):
        task = asyncio.create_task(watch(address))
        await opened.wait()
        if how == "cancelled":
            task.cancel()
        await asyncio.wait([task])
        await closed.wait()
    assert task.cancelled() is (how == "cancelled")


async def test_a_server_that_never_shakes_hands_is_given_up(monkeypatch):
    monkeypatch.setattr(http, "CONNECT_SECONDS", 0.2)
    async with asyncio.timeout(PATIENCE), saying(b"") as (address, closed):
        async with connect(server=f"https://{address}", insecure=True) as transport:
            with pytest.raises(Retry, match=r"no connection to .* no answer in time"):
                async with transport.stream(WatchRequest("/x", idle=PATIENCE)):
                    pass
        await closed.wait()


async def test_the_path_of_a_server_is_sent_as_it_can_be():
    async def handle(request: web.Request) -> web.Response:
        return web.json_response({"path": request.raw_path}, status=418)

    async with serving(handle) as server, connect(server=f"{server}/ü %2F/") as transport:
        client = Client(transport)
        for request in (client.fetch("/p"), client.patch(NODE, KEY, {})):
            with pytest.raises(Rejected, match="418"):
                await request
        seen = [await transport.send(Request(method, "/p", timeout=PATIENCE)) for method in ("GET", "PUT")]
    assert [yaml.safe_load(answer.body)["path"] for answer in seen] == ["/%C3%BC%20%2F/p"] * 2


async def test_a_redirect_is_not_followed():
    """It would carry our credentials to whoever it names."""

    async def handle(request: web.Request) -> web.Response:
        raise web.HTTPFound("http://127.0.0.1:1/")

    async with serving(handle) as server, connect(server=server) as transport:
        with pytest.raises(Rejected, match="302"):
            await Client(transport).get(NODE, KEY)


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


@pytest.mark.parametrize(("context", "token"), [(None, "Bearer one"), ("second", "Bearer two")])
async def test_a_kubeconfig_gives_server_and_token_of_a_context(tmp_path, context, token):
    async with serving(whoami) as server:
        users: dict[str, Any] = {"first": {"token": "one"}, "second": {"token": "two"}}
        path = write_kubeconfig(tmp_path / "config", {"server": server}, **users)
        async with connect(kubeconfig=path, context=context) as transport:
            assert await Client(transport).fetch("/") == {"token": token}


async def test_a_token_that_is_renewed_in_its_file_is_used(tmp_path, monkeypatch):
    monkeypatch.setattr(credentials, "REFRESH_SECONDS", 0.0)
    token = tmp_path / "token"
    token.write_text("old")
    async with serving(whoami) as server:
        path = write_kubeconfig(tmp_path / "config", {"server": server}, me={"tokenFile": str(token)})
        async with connect(kubeconfig=path) as transport:
            assert await Client(transport).fetch("/") == {"token": "Bearer old"}
            token.write_text("new")
            assert await Client(transport).fetch("/") == {"token": "Bearer new"}
            token.unlink()
            with pytest.raises(Retry, match="credentials could not be renewed"):
                await Client(transport).fetch("/")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the library's request to a provider
async def test_a_refresh_token_that_was_renewed_is_kept_in_its_file(tmp_path, monkeypatch):
    """Many providers accept a refresh token once; without the new one, the next login would fail."""

    async def handle(request: web.Request) -> web.Response:
        if request.path.endswith("openid-configuration"):
            return web.json_response({"token_endpoint": f"http://{request.host}/token"})
        if request.path == "/token":
            assert (await request.post())["refresh_token"] == "r"
            return web.json_response({"id_token": "new", "refresh_token": "r+"})
        return await whoami(request)

    async with serving(handle) as server:
        config = {"client-id": "c", "client-secret": "s", "idp-issuer-url": server, "refresh-token": "r"}
        cluster = {"server": server, "certificate-authority": "ca.crt"}
        me = {"auth-provider": {"name": "oidc", "config": config}}
        path = write_kubeconfig(tmp_path / "one", cluster, me=me)
        (tmp_path / "two").write_text("current-context: me")
        monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/two:{path}")
        async with connect() as transport:
            assert await Client(transport).fetch("/") == {"token": "Bearer new"}
    kept = yaml.safe_load((tmp_path / "one").read_text())
    assert kept["users"][0]["user"]["auth-provider"]["config"]["refresh-token"] == "r+"
    assert kept["clusters"][0]["cluster"] == cluster  # its paths stay relative
    assert (tmp_path / "two").read_text() == "current-context: me"


async def test_waiting_for_credentials_counts_and_sends_nothing():
    """A write must not go out after its deadline, however long a plugin took."""
    configuration = Configuration(host="http://127.0.0.1:1", api_key={"BearerToken": "old"})
    configuration.refresh_api_key_hook = lambda _: asyncio.Event().wait()
    async with ApiClient(configuration) as api:
        with pytest.raises(Retry, match="credentials") as caught:
            await Client(HttpTransport(api), write_seconds=0.05).patch(NODE, KEY, {})
        assert type(caught.value) is Retry


@pytest.mark.parametrize("text", ["", "[1]", "{a", "a: b", "clusters: 3"])
async def test_a_file_that_is_no_kubeconfig_is_named(tmp_path, text):
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(Rejected, match=str(path)):
        async with connect(kubeconfig=str(path)):
            pass


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param({"kubeconfig": "/nowhere/config"}, id="no such file"),
        pytest.param({"context": "missing"}, id="no such context"),
        pytest.param({"server": "127.0.0.1:8080"}, id="no URL"),
        pytest.param({}, id="nothing at all"),
    ],
)
async def test_not_knowing_the_server_is_said_at_once(tmp_path, monkeypatch, arguments):
    path = write_kubeconfig(tmp_path / "config", {"server": "http://127.0.0.1:1"}, me={})
    location = path if arguments else str(tmp_path / "missing")
    monkeypatch.setenv("KUBECONFIG", location)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(
        Rejected, match=r"cannot reach a cluster: .*(--server|no kubeconfig at|not an http or https URL)"
    ):
        async with connect(**arguments):
            pass


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def tls(authority: trustme.CA) -> ssl.SSLContext:
    """For a server at 127.0.0.1 whose certificate only this authority vouches for."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context


async def test_tls_is_verified_with_the_authority_of_the_kubeconfig(tmp_path, authority, tls):
    authority.cert_pem.write_to_path(str(tmp_path / "cert"))
    async with serving(whoami, tls) as server:
        cluster = {"server": server, "certificate-authority": "cert"}
        path = write_kubeconfig(tmp_path / "config", cluster, me={"token": "t"})
        async with connect(kubeconfig=path) as transport:
            assert await Client(transport).fetch("/") == {"token": "Bearer t"}


async def test_a_certificate_has_no_dot_that_ends_a_name(tmp_path, authority):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("api.example").configure_cert(context)
    authority.cert_pem.write_to_path(str(tmp_path / "cert"))
    async with serving(whoami, context) as server:
        cluster = {"server": server, "certificate-authority": "cert", "tls-server-name": "api.example."}
        path = write_kubeconfig(tmp_path / "config", cluster, me={"token": "t"})
        async with connect(kubeconfig=path) as transport:
            assert await Client(transport).patch(NODE, KEY, {}) == {"token": "Bearer t"}


@pytest.mark.parametrize(
    ("cluster", "remedy"),
    [
        pytest.param({}, "set certificate-authority-data of cluster c in the kubeconfig", id="no authority"),
        pytest.param(
            {"certificate-authority": "other"},
            "certificate-authority of cluster c in the kubeconfig is not the authority that signed it",
            id="another authority",
        ),
        pytest.param(
            {"certificate-authority": "cert", "tls-server-name": "elsewhere"},
            "set tls-server-name of cluster c in the kubeconfig to a name in the certificate",
            id="another name",
        ),
    ],
)
async def test_a_refused_certificate_names_the_setting(tmp_path, authority, tls, cluster, remedy):
    """For reads and for writes, which have connections of their own; neither was sent."""
    authority.cert_pem.write_to_path(str(tmp_path / "cert"))
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "other"))
    async with serving(whoami, tls) as server:
        path = write_kubeconfig(tmp_path / "config", {"server": server, **cluster}, me={"token": "t"})
        async with connect(kubeconfig=path) as transport:
            client = Client(transport)
            for request in (client.fetch("/"), client.patch(NODE, KEY, {})):
                with pytest.raises(Retry, match=f"certificate verify failed .*{remedy}") as caught:
                    await request
                assert type(caught.value) is Retry
                assert f"{server} (context me)" in str(caught.value)


@pytest.mark.parametrize("insecure", [True, False])
async def test_any_certificate_is_believed_only_where_a_flag_says_so_too(tmp_path, tls, insecure):
    async with serving(whoami, tls) as server:
        cluster = {"server": server, "insecure-skip-tls-verify": True}
        path = write_kubeconfig(tmp_path / "config", cluster, me={"token": "t"})
        if insecure:
            async with connect(kubeconfig=path, insecure=True) as transport:
                assert await Client(transport).fetch("/") == {"token": "Bearer t"}
        else:
            with pytest.raises(Rejected, match="pass --insecure-skip-tls-verify"):
                async with connect(kubeconfig=path):
                    pass


async def test_the_flag_goes_for_a_plain_url_as_well(tls):
    async with serving(whoami, tls) as server:
        async with connect(server=server) as transport:
            with pytest.raises(
                Retry, match=r"certificate verify failed .*use --kubeconfig, with certificate-"
            ):
                await Client(transport).fetch("/")
        async with connect(server=server, insecure=True) as transport:
            assert await Client(transport).fetch("/") == {"token": "none"}
