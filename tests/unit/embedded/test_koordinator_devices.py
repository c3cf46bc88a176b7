"""Koordinator's Device as a server with its resource definition serves it."""

from typing import Any

import pytest

from reconciler.embedded import ApiServer
from tests.tools.driving import MERGE, PODS, call, causes, ok, pod, refused, take

DEVICES = "/apis/scheduling.koordinator.sh/v1alpha1/devices"
STRATEGIC = "application/strategic-merge-patch+json"
TOPOLOGY = {"socketID": -1, "nodeID": 0, "pcieID": "a"}


def device(name: str = "node-1", **fields: Any) -> dict[str, Any]:
    entry = {"type": "gpu", "minor": 0, "health": True, "resources": {"koordinator.sh/gpu-core": "100"}}
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Device",
        "metadata": {"name": name},
        "spec": {"devices": [{**entry, **fields}]},
    }


def test_discovery_offers_one_object_a_node_without_namespaces():
    (entry, status) = ok(ApiServer(), "GET", DEVICES.rpartition("/")[0])["resources"]
    assert (entry["name"], entry["kind"], entry["namespaced"]) == ("devices", "Device", False)
    assert status["name"] == "devices/status"


def test_a_device_is_made_read_changed_watched_and_deleted():
    api = ApiServer()
    made = ok(api, "POST", DEVICES, device(topology=TOPOLOGY))
    assert made["metadata"]["generation"] == 1
    patch: dict[str, Any] = {"spec": {"devices": []}}
    assert ok(api, "PATCH", f"{DEVICES}/node-1", patch, media=MERGE)["metadata"]["generation"] == 2
    assert [item["metadata"]["name"] for item in ok(api, "GET", DEVICES)["items"]] == ["node-1"]
    assert ok(api, "DELETE", f"{DEVICES}/node-1")["kind"] == "Status"
    assert refused(api, "GET", f"{DEVICES}/node-1") == (404, "NotFound")


async def test_a_watch_reports_devices():
    api = ApiServer()
    ok(api, "POST", DEVICES, device())
    assert await take(api, 1, DEVICES) == [("ADDED", "node-1")]


def test_a_device_of_unknown_health_is_not_healthy():
    raw = device()
    del raw["spec"]["devices"][0]["health"]
    assert ok(ApiServer(), "POST", DEVICES, raw)["spec"]["devices"][0]["health"] is False


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"type": "tpu"}, "spec.devices[0].type"),
        ({"minor": 2**31}, "spec.devices[0].minor"),
        ({"topology": {"socketID": 0, "nodeID": 0}}, "spec.devices[0].topology.pcieID"),
        ({"vfGroups": [{"vfs": [{"busID": "0000:01:00.1"}]}]}, "spec.devices[0].vfGroups[0].vfs[0].minor"),
    ],
)
def test_what_the_definition_requires_is_required(fields: dict[str, Any], field: str):
    assert [path for path, _ in causes(ApiServer(), "POST", DEVICES, device(**fields))] == [field]


def test_a_custom_resource_is_never_replaced_blindly_nor_merged_by_keys():
    api = ApiServer()
    ok(api, "POST", DEVICES, device())
    assert refused(api, "PUT", f"{DEVICES}/node-1", device())[0] == 422
    assert call(api, "PATCH", f"{DEVICES}/node-1", {}, media=STRATEGIC)[0] == 415


def test_a_term_that_matches_no_node_stays_one_while_a_pod_is_gated():
    """As on a real server: an addition to an empty term would add nodes to the selection."""
    api = ApiServer()

    def affinity(*terms: dict[str, Any]) -> dict[str, Any]:
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
        return {"nodeAffinity": required}

    here = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
    zone = {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}
    ok(api, "POST", PODS, pod(schedulingGates=[{"name": "example.com/g"}], affinity=affinity({}, zone)))
    both = {"spec": {"affinity": affinity(here, {**zone, **here})}}
    assert causes(api, "PATCH", f"{PODS}/p", both, media=MERGE)[0][0] == "spec.affinity"
    one = {"spec": {"affinity": affinity({}, {**zone, **here})}}
    ok(api, "PATCH", f"{PODS}/p", one, media=MERGE)
