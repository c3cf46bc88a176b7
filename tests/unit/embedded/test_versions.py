"""One store, several versions: an object written in one version is readable in all (VER-1 to VER-5)."""

from datetime import UTC, datetime

import pytest

from reconciler.embedded import ApiServer, GroupVersion, ServedKind
from tests.tools.driving import CLAIMS, JSON_PATCH, MERGE, SLICES, claim, device_slice, ok, refused, take

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
    """Named at the start or registered later."""
    own = GroupVersion("scheduling.example", "v1alpha1")
    kind = ServedKind("Device", "devices", "device", (own,), namespaced=False)
    registered = ApiServer()
    registered.register(kind)
    path = f"/apis/{own}/devices"
    for api in (ApiServer([kind]), registered):
        made = ok(api, "POST", path, {"metadata": {"name": "d"}, "spec": {"anything": [1]}})
        assert (made["kind"], made["spec"]) == ("Device", {"anything": [1]})
        assert [entry["name"] for entry in ok(api, "GET", f"/apis/{own}")["resources"]] == ["devices"]
        strategic = "application/strategic-merge-patch+json"
        assert refused(api, "PATCH", f"{path}/d", {}, media=strategic) == (415, "UnsupportedMediaType")
