"""Who may use the status port, and how questions are refused."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import trustme
import yaml
from aiohttp import web

from reconciler.cluster.client import Client
from reconciler.cluster.http import connect
from reconciler.cluster.transport import Lines, Request, Response, WatchRequest
from reconciler.embedded import ApiServer, serve
from reconciler.embedded.accounts import Roles, read_tokens
from reconciler.embedded.guard import Guard
from reconciler.errors import Rejected, Retry
from reconciler.operations.serving.access import CACHE_SECONDS, Review, Token, is_loopback
from reconciler.operations.serving.port import Route, StatusPort
from reconciler.operations.serving.server import Certificate, access_for, serving
from reconciler.settings import Settings
from tests.tools.http_servers import write_kubeconfig
from tests.tools.watched_reconciler import ask, utc_now

pytestmark = pytest.mark.loopback


@dataclass
class Nobody:
    """A transport to a server that is away; counts who asked."""

    asked: list[str] = field(default_factory=list)

    async def send(self, request: Request) -> Response:
        self.asked.append(request.path)
        raise Retry("away")

    def stream(self, request: WatchRequest) -> Lines:
        raise AssertionError(request.path)


async def hello(_: web.BaseRequest) -> web.StreamResponse:
    return web.Response(text="hello")


@asynccontextmanager
async def served(client: Client | None = None, **flags: Any) -> AsyncIterator[str]:
    """A port with one route for those who may and one for all; yields its URL."""
    settings = Settings(**flags)
    access = access_for(settings, client or Client(Nobody()), asyncio.get_running_loop().time)
    port = StatusPort(access)
    port.add(Route("/metrics", hello), Route("/livez", hello, open=True))
    async with serving(port, settings, now=utc_now) as url:
        yield url


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


# -- this machine


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:1", 200),
        ("[::1]:1", 200),
        ("127.9.9.9", 200),
        ("evil.example.com", 403),
        ("localhost.evil.example.com", 403),
    ],
)
async def test_dns_rebinding_is_denied(host: str, status: int):
    async with served() as url:
        assert (await ask(f"{url}/metrics", {"Host": host})).status == status
        assert (await ask(f"{url}/livez", {"Host": host})).status == 200


@pytest.mark.parametrize(
    ("address", "local"),
    [
        ("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False),
        ("::", False), ("10.1.2.3", False), ("example.com", False),
    ],
)  # fmt: skip
def test_loopback_names_and_addresses(address: str, local: bool):
    assert is_loopback(address) == local


def test_a_network_address_needs_access_control():
    with pytest.raises(Rejected, match=r"status_token_file.*status_token_review"):
        access_for(Settings(status_address="0.0.0.0"), Client(Nobody()), lambda: 0.0)


async def test_an_unusable_address_is_reported():
    async with served() as url:
        taken = int(url.rpartition(":")[2])
        with pytest.raises(Rejected, match=f"cannot listen on 127.0.0.1 port {taken}"):
            async with served(status_port=taken):
                pass


# -- a token from a file


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        (bearer("wrong"), 401),
        (bearer("tok"), 401),
        (bearer("tökän"), 401),
        ({"Authorization": "Basic token"}, 401),
        ({"Authorization": "Bearer"}, 401),
        (bearer("token"), 200),
        ({"Authorization": "bearer  token "}, 200),
    ],
)
async def test_the_token_of_the_file_gives_access(headers: dict[str, str], status: int, tmp_path: Path):
    file = tmp_path / "token"
    file.write_text("token\n")
    async with served(status_token_file=file) as url:
        found = await ask(f"{url}/metrics", headers)
        assert found.status == status
        assert (status == 401) == (found.headers.get("WWW-Authenticate") == "Bearer")
        assert (await ask(f"{url}/livez", headers)).status == 200
        # Nor is it told to strangers what there is.
        assert (await ask(f"{url}/nowhere", headers)).status == (404 if status == 200 else 401)


async def test_a_replaced_token_takes_effect_at_once(tmp_path: Path):
    file = tmp_path / "token"
    file.write_text("first")
    async with served(status_token_file=file) as url:
        assert (await ask(f"{url}/metrics", bearer("first"))).status == 200
        file.write_text("another")
        assert (await ask(f"{url}/metrics", bearer("first"))).status == 401
        assert (await ask(f"{url}/metrics", bearer("another"))).status == 200
        file.write_text("")
        assert (await ask(f"{url}/metrics", bearer("another"))).status == 503
        file.unlink()
        assert (await ask(f"{url}/metrics", bearer("another"))).status == 503
        assert (await ask(f"{url}/livez")).status == 200


@pytest.mark.parametrize("content", [None, "", " \n", "x" * 20_000])
def test_a_file_without_a_token_is_refused_at_the_start(content: str | None, tmp_path: Path):
    file = tmp_path / "token"
    if content is not None:
        file.write_text(content)
    with pytest.raises(Rejected, match="status_token_file"):
        Token(file)


# -- the cluster judges

READER = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reader}
rules:
- {nonResourceURLs: [/metrics], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reader}
subjects: [{kind: Group, apiGroup: rbac.authorization.k8s.io, name: monitoring}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: system:auth-delegator}
rules:
- {apiGroups: [authentication.k8s.io], resources: [tokenreviews], verbs: [create]}
- {apiGroups: [authorization.k8s.io], resources: [subjectaccessreviews], verbs: [create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: delegator}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "system:auth-delegator"}
subjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: reconciler}]
"""
TOKENS = """
our-token,reconciler,1
prometheus-token,prometheus,2,"monitoring"
stranger-token,stranger,3
"""


@asynccontextmanager
async def judging(tmp_path: Path, token: str = "our-token") -> AsyncIterator[Client]:
    """A server with tokens and roles, to which we come with one of them."""
    guard = Guard(read_tokens(TOKENS, source="tokens"), Roles.read(yaml.safe_load_all(READER)))
    async with serve(ApiServer(guard=guard)) as url:
        config = write_kubeconfig(tmp_path / "kubeconfig", {"server": url}, u={"token": token})
        async with connect(kubeconfig=config) as transport:
            yield Client(transport)


async def test_users_with_permission_are_allowed(tmp_path: Path):
    async with judging(tmp_path) as client, served(client, status_token_review=True) as url:
        found = {
            token: (await ask(f"{url}/metrics", bearer(token))).status
            for token in ("prometheus-token", "stranger-token", "made-up")
        }
        assert found == {"prometheus-token": 200, "stranger-token": 403, "made-up": 401}
        assert (await ask(f"{url}/metrics")).status == 401
        assert (await ask(f"{url}/statusz", bearer("prometheus-token"))).status == 403
        assert (await ask(f"{url}/livez")).status == 200


async def test_without_permission_to_review_everybody_is_denied(tmp_path: Path):
    async with judging(tmp_path, "stranger-token") as client, served(client, status_token_review=True) as url:
        found = await ask(f"{url}/metrics", bearer("prometheus-token"))
        assert found.status == 503
        assert "prometheus-token" not in found.text
        assert (await ask(f"{url}/livez")).status == 200


async def test_everybody_is_denied_while_the_api_server_is_unreachable():
    async with served(Client(Nobody()), status_token_review=True) as url:
        assert (await ask(f"{url}/metrics", bearer("any"))).status == 503


class Judge(Nobody):
    """Lets everybody in, as soon as it is allowed to answer."""

    def __init__(self) -> None:
        super().__init__()
        self.go = asyncio.Event()
        self.waiting = asyncio.Semaphore(0)

    async def send(self, request: Request) -> Response:
        self.asked.append(request.path)
        self.waiting.release()
        await self.go.wait()
        answer = b'{"status": {"authenticated": true, "allowed": true, "user": {"username": "u"}}}'
        return Response(201, {}, answer)


async def test_a_review_is_cached_for_a_while():
    judge, now = Judge(), 0.0
    judge.go.set()
    port = StatusPort(Review(Client(judge), lambda: now).check)
    port.add(Route("/metrics", hello), Route("/statusz", hello))
    async with serving(port, Settings(), now=utc_now) as url:
        for _ in range(3):
            assert (await ask(f"{url}/metrics", bearer("a"))).status == 200
        assert len(judge.asked) == 2
        await ask(f"{url}/statusz", bearer("a"))
        assert len(judge.asked) == 4  # for every path anew
        await ask(f"{url}/metrics", bearer("b"))
        assert len(judge.asked) == 6
        now = CACHE_SECONDS
        await ask(f"{url}/metrics", bearer("a"))
        assert len(judge.asked) == 8


async def test_invalid_tokens_do_not_load_the_api_server():
    judge = Judge()
    async with served(Client(judge), status_token_review=True) as url:
        asked = [asyncio.ensure_future(ask(f"{url}/metrics", bearer(f"token {n}"))) for n in range(4)]
        for _ in asked:
            await judge.waiting.acquire()
        assert (await ask(f"{url}/metrics", bearer("one more"))).status == 429
        judge.go.set()
        assert {found.status for found in await asyncio.gather(*asked)} == {200}


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (b"{}", 401),
        (b'{"status": null}', 401),
        (b'{"status": {"authenticated": "yes", "allowed": true, "user": {"username": "u"}}}', 401),
        (b"[]", 503),
        (b'{"status": {"authenticated": true}}', 401),
    ],
)
async def test_a_malformed_review_denies_access(answer: bytes, status: int):
    class Odd(Nobody):
        async def send(self, request: Request) -> Response:  # noqa: ARG002 - see Transport
            return Response(201, {}, answer)

    async with served(Client(Odd()), status_token_review=True) as url:
        assert (await ask(f"{url}/metrics", bearer("any"))).status == status


def test_a_token_file_and_reviews_exclude_one_another(tmp_path: Path):
    settings = Settings(status_token_file=tmp_path / "token", status_token_review=True)
    with pytest.raises(Rejected, match="set only one of"):
        access_for(settings, Client(Nobody()), lambda: 0.0)


# -- TLS


def issue(authority: trustme.CA, folder: Path) -> dict[str, Any]:
    """Files with a certificate for this machine."""
    issued = authority.issue_cert("127.0.0.1")
    files = {"status_tls_cert": folder / "tls.crt", "status_tls_key": folder / "tls.key"}
    issued.cert_chain_pems[0].write_to_path(files["status_tls_cert"])
    issued.private_key_pem.write_to_path(files["status_tls_key"])
    return files


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


async def test_the_certificate_of_the_files_is_shown(tmp_path: Path):
    authority = trustme.CA()
    async with served(**issue(authority, tmp_path)) as url:
        assert url.startswith("https://")
        assert (await ask(f"{url}/metrics", tls=trusting(authority))).text == "hello"
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await ask(f"{url}/metrics", tls=trusting(trustme.CA()))
        with pytest.raises(aiohttp.ClientError):
            await ask(f"{url.replace('https', 'http')}/metrics")


async def test_new_connections_get_the_renewed_certificate(tmp_path: Path):
    old, new = trustme.CA(), trustme.CA()
    files = issue(old, tmp_path)
    certificate = Certificate(files["status_tls_cert"], files["status_tls_key"])
    server = await asyncio.start_server(
        lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=certificate.context
    )
    port = server.sockets[0].getsockname()[1]

    async def trusted(authority: trustme.CA) -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting(authority))
        except ssl.SSLCertVerificationError:
            return False
        writer.close()
        return True

    async with server:
        assert (await trusted(old), await trusted(new)) == (True, False)
        assert not certificate.renew()
        issue(new, tmp_path)
        assert certificate.renew()
        assert (await trusted(old), await trusted(new)) == (False, True)
        # Half of a new pair, as while somebody writes it: the one before stays.
        old.issue_cert("127.0.0.1").cert_chain_pems[0].write_to_path(files["status_tls_cert"])
        with pytest.raises(ssl.SSLError):
            certificate.renew()
        assert (await trusted(old), await trusted(new)) == (False, True)


async def test_a_network_address_always_has_tls(tmp_path: Path):
    file = tmp_path / "token"
    file.write_text("token")
    async with served(status_address="0.0.0.0", status_token_file=file) as url:
        assert url.startswith("https://0.0.0.0:")
        here = url.replace("0.0.0.0", "127.0.0.1")
        assert (await ask(f"{here}/metrics", bearer("token"), tls=False)).text == "hello"
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await ask(f"{here}/metrics", bearer("token"))
        with pytest.raises(aiohttp.ClientError):
            await ask(f"{here.replace('https', 'http')}/metrics", bearer("token"))


@pytest.mark.parametrize("missing", ["status_tls_cert", "status_tls_key"])
async def test_a_certificate_without_its_key_is_rejected(missing: str, tmp_path: Path):
    files = issue(trustme.CA(), tmp_path)
    del files[missing]
    with pytest.raises(Rejected, match="set both status_tls_cert"):
        async with served(**files):
            pass


async def test_files_without_a_certificate_are_refused(tmp_path: Path):
    files = issue(trustme.CA(), tmp_path)
    files["status_tls_cert"].write_text("no certificate")
    with pytest.raises(Rejected, match="certificate of the status port"):
        async with served(**files):
            pass
    files["status_tls_cert"].unlink()
    with pytest.raises(Rejected, match="No such file"):
        async with served(**files):
            pass
