"""How requests get their credentials: from kubeconfigs, files that change, and providers."""

import asyncio
import ssl
from typing import Any

import pytest
import trustme
import yaml
from aiohttp import web
from kubernetes_asyncio.client import ApiClient, Configuration
from structlog.testing import capture_logs

from reconciler.api.objects.meta import ObjectKey
from reconciler.cluster import credentials
from reconciler.cluster.client import Client
from reconciler.cluster.http import HttpTransport, connect
from reconciler.cluster.kinds import NODE
from reconciler.cluster.target import Target
from reconciler.errors import Rejected, Retry
from tests.tools.http_servers import serving, whoami, write_kubeconfig

pytestmark = pytest.mark.loopback

KEY = ObjectKey("", "n")


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


async def test_the_account_of_a_pod_never_skips_verification():
    with pytest.raises(Rejected, match="always verifies certificates: remove --insecure-skip-tls-verify"):
        await credentials.configuration_for(Target("https://10.0.0.1", in_pod=True), insecure=True)


# -- TLS is verified as the kubeconfig says, and a refusal names the remedy.


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
async def test_a_kubeconfig_may_have_any_certificate_believed_with_a_warning(tmp_path, tls, insecure):
    async with serving(whoami, tls) as server:
        cluster = {"server": server, "insecure-skip-tls-verify": True}
        path = write_kubeconfig(tmp_path / "config", cluster, me={"token": "t"})
        with capture_logs() as said:
            async with connect(kubeconfig=path, insecure=insecure) as transport:
                assert await Client(transport).fetch("/") == {"token": "Bearer t"}
    assert [one["event"] for one in said] == ["API server certificate is not verified"]


async def test_the_flag_goes_for_a_plain_url_as_well(tls):
    async with serving(whoami, tls) as server:
        async with connect(server=server) as transport:
            with pytest.raises(
                Retry, match=r"certificate verify failed .*use --kubeconfig, with certificate-"
            ):
                await Client(transport).fetch("/")
        async with connect(server=server, insecure=True) as transport:
            assert await Client(transport).fetch("/") == {"token": "none"}
