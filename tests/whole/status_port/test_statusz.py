"""`/statusz`: what this process is, and how it sees its server."""

from datetime import UTC, datetime, timedelta

import pytest
from structlog.testing import capture_logs

from reconciler.cluster.discovery import unserved
from reconciler.cluster.kinds import NODE, POD, Resource, Served
from reconciler.cluster.transport import Response
from reconciler.control.decisions.allocating import Allocated
from reconciler.operations.serving.port import Statusz
from reconciler.operations.telemetry import settings_shown
from reconciler.settings import Settings
from tests.tools.faulty_transport import Send
from tests.tools.running_reconciler import Cluster
from tests.tools.small_fleet import claim, device_class, devices, node
from tests.tools.watched_reconciler import watched

START = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


def test_the_head_is_that_of_kubernetes_components():
    now = START
    page = Statusz("1.2.3", "1.37", lambda: now)
    now = START + timedelta(hours=25, minutes=3, seconds=4)
    lines = page.text(["/livez", "/metrics"]).splitlines()
    assert lines[1] == "dra-reconciler statusz"
    assert lines[2].startswith("Warning: This endpoint is not meant to be machine parseable")
    assert "Started: Sun Mar 01 12:00:00 UTC 2026" in lines
    assert "Up: 25 hr 03 min 04 sec" in lines
    assert "Binary version: 1.2.3" in lines
    assert "Emulation version: 1.37" in lines
    assert "Paths: /livez /metrics" in lines


def test_a_row_is_one_line_whatever_is_in_it():
    page = Statusz("1", "1.37", lambda: START)
    page.add("Odd", lambda: [("name\nwith ends", "value\r\nSettings:")])
    assert "  name with ends: value Settings:" in page.text([]).splitlines()


def test_neither_secrets_nor_their_paths_are_shown(tmp_path):
    file = tmp_path / "hidden-token"
    file.write_text("s3cret")
    settings = Settings(
        status_token_file=file,
        status_tls_key=tmp_path / "hidden-key",
        kubeconfig="/hidden/kubeconfig",
        server="https://user:hidden-password@example.com:6443/path?token=hidden",
        own_drivers="b.example.com,a.example.com",
    )
    shown = dict(settings_shown(settings))
    assert "hidden" not in str(shown)
    assert "s3cret" not in str(shown)
    assert shown["status_token_file"] == "(set)"
    assert shown["server"] == "https://example.com:6443/path"
    assert shown["own_drivers"] == "a.example.com, b.example.com"
    assert set(shown) == set(Settings.model_fields)


def test_not_served_lists_the_missing_kinds():
    def resource(kind: str, version: str) -> Resource:
        return Resource(kind, "resource.k8s.io", version, kind.lower(), namespaced=False)

    kinds = [resource(kind, "v1beta2") for kind in ("ResourceSlice", "ResourceClaim", "DeviceClass")]
    missing = unserved(Served({one.kind: one for one in (NODE, POD, *kinds)}))
    assert missing == [
        "resource.k8s.io/v1 ResourceSlice",
        "resource.k8s.io/v1 ResourceClaim",
        "resource.k8s.io/v1 DeviceClass",
        "resource.k8s.io/v1 DeviceTaintRule",
        "resource.k8s.io/v1beta2 DeviceTaintRule",
        "resource.k8s.io/v1alpha3 DeviceTaintRule",
    ]


@pytest.mark.loopback
async def test_served_kinds_and_the_age_of_watches_are_shown():
    cluster = Cluster([node("n"), device_class(), devices("n", "d0")])
    cluster.load(claim("a"))
    async with watched(cluster) as seen:
        await seen.heard(Allocated)
        text = (await seen.get("/statusz")).text
    lines = text.splitlines()
    assert "  ResourceClaim: resource.k8s.io/v1" in lines
    assert "  feature gates off: none detected" in lines
    assert "  leading: yes" in lines
    assert "  search_steps: 10000" in lines
    assert any(line.startswith("  Pod: ") and line.endswith(" s ago") for line in lines)


@pytest.mark.loopback
async def test_a_dropped_field_is_logged_once_and_shown():
    """As a server does whose feature gate is off: the answer to the write lacks what was written."""

    async def drop(send: Send) -> Response:
        found = await send()
        body = found.body.replace(b'"device":"d', b'"bindingConditions":["odd"],"device":"d')
        assert body != found.body
        return Response(found.status, found.headers, body)

    cluster = Cluster([node("n"), device_class(), devices("n", "d0", "d1")])
    cluster.load(claim("a"), claim("b"))

    def prepare(faulty):
        faulty.on("PATCH", "/a/status", drop)
        faulty.on("PATCH", "/b/status", drop)

    with capture_logs() as logs:
        async with watched(cluster, prepare=prepare) as seen:
            await seen.heard(Allocated, 2)
            text = (await seen.get("/statusz")).text
            assert await seen.value("dra_reconciler_dropped_fields") == 1
    field = "status.allocation.devices.results[].bindingConditions"
    assert f"  {field}: is the feature gate DRADeviceBindingConditions off?" in text.splitlines()
    told = [line for line in logs if line.get("field") == field]
    assert [(line["gate"], line["log_level"]) for line in told] == [("DRADeviceBindingConditions", "warning")]
