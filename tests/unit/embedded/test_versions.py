"""One store, several versions: an object written in one version is readable in all (VER-1 to VER-5)."""

import io
from datetime import UTC, datetime
from functools import cache

import kubernetes_validate
import pytest

from reconciler.api.manifests.documents import InvalidDocument, documents
from reconciler.embedded import ApiServer, GroupVersion, ServedKind, run_controllers
from tests.tools.checkout import ROOT
from tests.tools.driving import (
    CLAIMS,
    FINALIZER,
    GATE,
    JSON_PATCH,
    MERGE,
    PODS,
    SLICES,
    STRATEGIC,
    TEMPLATES,
    UNGATE,
    allocation,
    claim,
    device_slice,
    node,
    ok,
    pod,
    refused,
    settle,
    take,
    wants,
)

OLD_CLAIMS = CLAIMS.replace("/v1/", "/v1beta1/")
OLD_SLICES = SLICES.replace("/v1/", "/v1beta1/")
CORE_EVENTS = "/api/v1/namespaces/default/events"
NEW_EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"


def requests(answer):
    return answer["spec"]["devices"]["requests"]


def test_inline_requests_become_exact_ones():
    api = ApiServer()
    old = {
        "metadata": {"name": "c"},
        "spec": {"devices": {"requests": [{"name": "r", "deviceClassName": "gpu"}]}},
    }
    made = ok(api, "POST", OLD_CLAIMS, old)
    inline = {"name": "r", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    assert (made["apiVersion"], requests(made)) == ("resource.k8s.io/v1beta1", [inline])
    exact = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    assert requests(ok(api, "GET", f"{CLAIMS}/c")) == [{"name": "r", "exactly": exact}]
    middle = CLAIMS.replace("/v1/", "/v1beta2/")
    assert requests(ok(api, "GET", f"{middle}/c")) == [{"name": "r", "exactly": exact}]


def test_alternatives_are_not_made_exact():
    api = ApiServer()
    wanted = [{"name": "r", "firstAvailable": [{"name": "a", "deviceClassName": "gpu"}]}]
    ok(api, "POST", OLD_CLAIMS, {"metadata": {"name": "c"}, "spec": {"devices": {"requests": wanted}}})
    assert "exactly" not in requests(ok(api, "GET", f"{CLAIMS}/c"))[0]


def test_templates_are_converted_too():
    api = ApiServer()
    path = "/apis/resource.k8s.io/{}/namespaces/default/resourceclaimtemplates"
    inner = {"devices": {"requests": [{"name": "r", "deviceClassName": "gpu"}]}}
    ok(api, "POST", path.format("v1beta1"), {"metadata": {"name": "t"}, "spec": {"spec": inner}})
    found = ok(api, "GET", path.format("v1") + "/t")["spec"]["spec"]["devices"]["requests"]
    assert found[0]["exactly"]["deviceClassName"] == "gpu"


def test_devices_lose_and_gain_their_basic_part():
    api = ApiServer()
    device = {"name": "gpu-0", "basic": {"attributes": {"a": {"int": 1}}}}
    made = ok(api, "POST", OLD_SLICES, device_slice(devices=[device], allNodes=False))
    assert made["spec"]["devices"] == [device]
    found = ok(api, "GET", f"{SLICES}/s")["spec"]
    assert found["devices"] == [{"name": "gpu-0", "attributes": {"a": {"int": 1}}}]
    assert "allNodes" not in found, "false stands for unset in the old version"


def test_a_patch_uses_the_version_of_its_path():
    api = ApiServer()
    ok(api, "POST", SLICES, device_slice())
    patch = [{"op": "add", "path": "/spec/devices/0/basic/attributes", "value": {"a": {"bool": True}}}]
    ok(api, "PATCH", f"{OLD_SLICES}/s", patch, media=JSON_PATCH)
    assert ok(api, "GET", f"{SLICES}/s")["spec"]["devices"][0]["attributes"] == {"a": {"bool": True}}


async def test_a_watch_of_one_version_sees_writes_through_another():
    api = ApiServer()
    start = str(api.store.version)
    ok(api, "POST", CLAIMS, claim("a"))
    assert await take(api, 1, OLD_CLAIMS, resourceVersion=start) == [("ADDED", "a")]


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1alpha3"])
def test_taint_rules_are_served_in_every_version(version):
    api = ApiServer(now=lambda: datetime(2026, 1, 1, tzinfo=UTC))
    rule = {
        "metadata": {"name": "r"},
        "spec": {"deviceSelector": {"driver": "d.example"}, "taint": {"key": "k", "effect": "NoSchedule"}},
    }
    ok(api, "POST", f"/apis/resource.k8s.io/{version}/devicetaintrules", rule)
    found = ok(api, "GET", "/apis/resource.k8s.io/v1/devicetaintrules/r")
    assert found["spec"]["taint"]["timeAdded"] == "2026-01-01T00:00:00Z"


def test_events_have_one_store_and_two_shapes():
    api = ApiServer()
    new = {
        "metadata": {"name": "e"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "example.com/x",
        "reportingInstance": "x-0",
        "action": "Allocating",
        "reason": "Failed",
        "type": "Warning",
        "note": "why",
        "regarding": {"kind": "ResourceClaim", "name": "c", "namespace": "default", "uid": "u"},
    }
    ok(api, "POST", NEW_EVENTS, new)
    old = ok(api, "GET", f"{CORE_EVENTS}/e")
    assert (old["message"], old["involvedObject"]["name"], old["source"]) == ("why", "c", {})
    assert old["reportingComponent"] == "example.com/x"
    for path, selector in (
        (CORE_EVENTS, "involvedObject.uid=u"),
        (NEW_EVENTS, "regarding.name=c,type=Warning"),
    ):
        assert len(ok(api, "GET", path, fieldSelector=selector)["items"]) == 1
    series = {"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:09.000000Z"}}
    assert ok(api, "PATCH", f"{NEW_EVENTS}/e", series, media=MERGE)["series"]["count"] == 2


def test_an_event_of_the_older_shape_needs_less_but_stays_in_its_namespace():
    api = ApiServer()
    event = {
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
    }
    ok(api, "POST", CORE_EVENTS, event)
    elsewhere = {**event, "metadata": {"name": "f"}, "involvedObject": {"namespace": "kube-system"}}
    assert refused(api, "POST", CORE_EVENTS, elsewhere) == (422, "Invalid")


def test_custom_kinds_are_served_with_the_builtin_kinds():
    own = GroupVersion("scheduling.example", "v1alpha1")
    api = ApiServer([ServedKind("Device", "devices", "device", (own,), namespaced=False)])
    path = f"/apis/{own}/devices"
    made = ok(api, "POST", path, {"metadata": {"name": "d"}, "spec": {"anything": [1]}})
    assert (made["kind"], made["spec"]) == ("Device", {"anything": [1]})
    assert [entry["name"] for entry in ok(api, "GET", f"/apis/{own}")["resources"]] == ["devices"]
    strategic = "application/strategic-merge-patch+json"
    assert refused(api, "PATCH", f"{path}/d", {}, media=strategic) == (415, "UnsupportedMediaType")


# -- Every object that server and controllers store is valid by the schemas that Kubernetes publishes.


DEMO = ROOT / "reconciler/cli/demo/manifests"
RELEASES = ("1.37.0", "1.36.0")
"""The newest release with a schema of a version counts: older ones lack newer fields."""


@cache
def release_of(version, kind):
    """The release whose schemas have a kind in a version; "" for custom resources."""
    for release in RELEASES:
        try:
            kubernetes_validate.validate({"apiVersion": version, "kind": kind}, release)
        except kubernetes_validate.SchemaNotFoundError:
            continue
        except kubernetes_validate.ValidationError:
            pass
        return release
    return ""


def check_everything(api):
    """Check each version of each object that the history has, in each version of its kind."""
    checked = set()
    for kind_store in api.store:
        for change in kind_store.since(0, 100_000):
            for served in kind_store.kind.served:
                kind = kind_store.kind
                if release := release_of(str(served), kind.kind):
                    shown = kind.downgrade(change.record.object, served)
                    whole = {"apiVersion": str(served), "kind": kind.kind, **shown}
                    kubernetes_validate.validate(whole, release, strict=True)
                    checked.add(kind.kind)
    return checked


@pytest.fixture
async def api():
    server = ApiServer()
    async with run_controllers(server):
        yield server


async def test_pods_and_claims_through_their_whole_lives(api):
    ok(api, "POST", "/api/v1/nodes", node())
    ok(api, "POST", TEMPLATES, {"metadata": {"name": "t"}, "spec": {"spec": claim()["spec"]}})
    asked = wants("gpu", resourceClaimTemplateName="t")
    made = pod(schedulingGates=[GATE], resourceClaims=asked)
    made["spec"]["initContainers"] = [{"name": "first", "image": "busybox"}]
    made["metadata"]["annotations"] = {"dra-reconciler.io/run-seconds": "0"}
    ok(api, "POST", PODS, made)
    await settle(api)
    name = ok(api, "GET", CLAIMS)["items"][0]["metadata"]["name"]
    ok(api, "PATCH", f"{CLAIMS}/{name}", {"metadata": {"finalizers": [FINALIZER]}}, media=MERGE)
    ok(api, "PATCH", f"{CLAIMS}/{name}/status", {"status": {"allocation": allocation()}}, media=MERGE)
    ok(api, "PATCH", f"{PODS}/p", UNGATE, media=STRATEGIC)
    ok(api, "POST", PODS, pod("stays"))
    await settle(api)
    assert {one["status"]["phase"] for one in ok(api, "GET", PODS)["items"]} == {"Running", "Succeeded"}
    ok(api, "POST", f"{PODS}/stays/eviction", {"metadata": {"name": "stays"}})
    ok(api, "DELETE", "/api/v1/namespaces/default")
    await settle(api)
    assert check_everything(api) == {"Namespace", "Node", "Pod", "ResourceClaim", "ResourceClaimTemplate"}


async def test_the_demo(api):
    found = [one for one in documents((str(DEMO),), io.BytesIO()) if not isinstance(one, InvalidDocument)]
    api.load([one.raw for one in found])
    await settle(api)
    assert {"Node", "Pod", "ResourceClaim", "ResourceSlice", "DeviceClass"} <= check_everything(api)
