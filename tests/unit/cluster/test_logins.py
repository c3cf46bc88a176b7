"""How requests get their credentials: from kubeconfigs, files that change, and providers."""

import asyncio
from typing import Any

import pytest
import yaml
from aiohttp import web
from kubernetes_asyncio.client import ApiClient, Configuration

from reconciler.api.objects.meta import ObjectKey
from reconciler.cluster import credentials
from reconciler.cluster.client import Client
from reconciler.cluster.http import HttpTransport, connect
from reconciler.cluster.kinds import NODE
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
