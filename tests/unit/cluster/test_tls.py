"""TLS is verified as the kubeconfig says, and a refusal names the remedy."""

import ssl

import pytest
import trustme
from structlog.testing import capture_logs

from reconciler.api.objects.meta import ObjectKey
from reconciler.cluster.client import Client
from reconciler.cluster.http import connect
from reconciler.cluster.kinds import NODE
from reconciler.errors import Retry
from tests.tools.http_servers import serving, whoami, write_kubeconfig

pytestmark = pytest.mark.loopback

KEY = ObjectKey("", "n")


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
