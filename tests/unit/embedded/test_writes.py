"""Create, update and delete: stored fields, refusals, and resourceVersion preconditions."""

import asyncio
import json
from datetime import UTC, datetime
from random import Random
from typing import Any

import aiohttp
import pytest

from reconciler.embedded import ApiServer, serve
from reconciler.errors import Rejected
from tests.tools.driving import (
    CLAIMS,
    MERGE,
    PODS,
    SLICES,
    allocation,
    call,
    causes,
    claim,
    device_slice,
    ok,
    pod,
    refused,
)

MAPS = "/api/v1/namespaces/default/configmaps"
EVENTS = "/api/v1/namespaces/default/events"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"


def test_time_and_randomness_come_from_the_caller():
    """Two servers with the same seed and clock give the same responses."""

    def answer():
        api = ApiServer(now=lambda: datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), random=Random(7))
        return ok(api, "POST", CLAIMS, {**claim(), "metadata": {"generateName": "g-"}})

    assert answer() == answer()
    assert answer()["metadata"]["creationTimestamp"] == "2026-01-02T03:04:05Z"
    assert answer()["metadata"]["name"].startswith("g-")


def test_generated_names_leave_room_for_their_suffix():
    api = ApiServer()
    made = ok(api, "POST", CLAIMS, {**claim(), "metadata": {"generateName": "x" * 100}})
    assert len(made["metadata"]["name"]) == 63


def test_a_dry_run_returns_the_result_and_stores_nothing():
    api = ApiServer()
    before = api.store.version
    made = ok(api, "POST", CLAIMS, claim("a"), dryRun="All")
    assert "resourceVersion" not in made["metadata"]
    assert refused(api, "GET", f"{CLAIMS}/a") == (404, "NotFound")
    ok(api, "POST", CLAIMS, claim("b"))
    ok(api, "DELETE", f"{CLAIMS}/b", dryRun="All")
    assert ok(api, "GET", f"{CLAIMS}/b")["metadata"]["name"] == "b"
    assert api.store.version == before + 1
    assert refused(api, "POST", CLAIMS, claim("a"), dryRun="Some") == (422, "Invalid")


def test_server_owned_fields_cannot_be_written():
    api = ApiServer()
    forged = {
        "uid": "mine",
        "creationTimestamp": "2000-01-01T00:00:00Z",
        "generation": 9,
        "managedFields": [{}],
    }
    made = ok(api, "POST", SLICES, {**device_slice(), "metadata": {"name": "s", **forged}})
    assert made["metadata"]["uid"] != "mine"
    assert made["metadata"]["generation"] == 1
    assert [one["manager"] for one in made["metadata"]["managedFields"]] == ["unknown"]
    for field, value in (("deletionTimestamp", "2000-01-01T00:00:00Z"), ("deletionGracePeriodSeconds", 5)):
        marked = {**made, "metadata": {**made["metadata"], field: value}}
        expected = [(f"metadata.{field}", "FieldValueInvalid")]
        assert causes(api, "PUT", f"{SLICES}/s", marked) == expected
        assert causes(api, "PATCH", f"{SLICES}/s", {"metadata": {field: value}}, media=MERGE) == expected
    for blank in ({"creationTimestamp": None}, {"uid": ""}, {"uid": None}):
        assert ok(api, "PATCH", f"{SLICES}/s", {"metadata": blank}, media=MERGE) == made


def test_generation_counts_changes_of_spec_only():
    api = ApiServer()
    ok(api, "POST", SLICES, device_slice())
    labelled = ok(api, "PATCH", f"{SLICES}/s", {"metadata": {"labels": {"a": "b"}}}, media=MERGE)
    assert labelled["metadata"]["generation"] == 1
    changed = ok(api, "PATCH", f"{SLICES}/s", {"spec": {"pool": {"generation": 2}}}, media=MERGE)
    assert changed["metadata"]["generation"] == 2


def test_a_uid_is_a_precondition_of_updates_and_deletions():
    api = ApiServer()
    made = ok(api, "POST", CLAIMS, claim())
    made["metadata"]["uid"] = "other"
    assert refused(api, "PUT", f"{CLAIMS}/c", made) == (409, "Conflict")
    assert refused(api, "DELETE", f"{CLAIMS}/c", {"preconditions": {"uid": "other"}}) == (409, "Conflict")
    found = refused(api, "DELETE", f"{CLAIMS}/c", {"preconditions": {"resourceVersion": "1"}})
    assert found == (409, "Conflict")


@pytest.mark.parametrize("field", ["acquireTime", "renewTime"])
@pytest.mark.parametrize(
    "moment", ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.123Z", "2026-01-01T00:00:00.0000000Z", "now", ""]
)
def test_times_of_leases_have_six_digits_behind_the_seconds(field: str, moment: str):
    lease = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "a", field: moment}}
    assert refused(ApiServer(), "POST", LEASES, lease) == (400, "BadRequest")
    lease["spec"][field] = "2026-01-01T00:00:00.123456+01:00"
    assert ok(ApiServer(), "POST", LEASES, lease)["spec"][field]


def test_times_of_events_too():
    event: dict[str, Any] = {"metadata": {"name": "e"}, "eventTime": "2026-01-01T00:00:00Z"}
    assert refused(ApiServer(), "POST", EVENTS, event) == (400, "BadRequest")
    event = {"metadata": {"name": "e"}, "eventTime": None, "lastTimestamp": "2026-01-01T00:00:00Z"}
    assert ok(ApiServer(), "POST", EVENTS, event)


def test_a_lease_is_never_updated_blindly():
    """A holder that omits the version would overwrite the next holder."""
    api = ApiServer()
    lease = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15}}
    ok(api, "POST", LEASES, lease)
    assert causes(api, "PUT", f"{LEASES}/l", lease) == [("metadata.resourceVersion", "FieldValueInvalid")]


def test_an_object_is_removed_with_its_last_finalizer():
    api = ApiServer()
    ok(api, "POST", CLAIMS, claim("a", finalizers=["x.example/1", "x.example/2"]))
    marked = ok(api, "DELETE", f"{CLAIMS}/a")
    assert marked["metadata"]["deletionTimestamp"]
    assert ok(api, "DELETE", f"{CLAIMS}/a") == marked, "a second deletion changes nothing"
    for moment in ("2000-01-01T00:00:00Z", None):
        earlier = {"metadata": {"deletionTimestamp": moment}}
        assert ok(api, "PATCH", f"{CLAIMS}/a", earlier, media=MERGE) == marked
    fewer = ok(api, "PATCH", f"{CLAIMS}/a", {"metadata": {"finalizers": ["x.example/2"]}}, media=MERGE)
    assert fewer["metadata"]["deletionTimestamp"] == marked["metadata"]["deletionTimestamp"]
    more = {"metadata": {"finalizers": ["x.example/2", "x.example/3"]}}
    found = causes(api, "PATCH", f"{CLAIMS}/a", more, media=MERGE)
    assert found == [("metadata.finalizers", "FieldValueForbidden")]
    ok(api, "PATCH", f"{CLAIMS}/a", {"metadata": {"finalizers": None}}, media=MERGE)
    assert refused(api, "GET", f"{CLAIMS}/a") == (404, "NotFound")


def test_deletions_answer_with_the_object_or_with_a_status_as_upstream():
    api = ApiServer()
    ok(api, "POST", MAPS, {"metadata": {"name": "m"}, "data": {"a": "b"}})
    answer = ok(api, "DELETE", f"{MAPS}/m")
    found = (answer["kind"], answer["status"], answer["details"]["kind"])
    assert found == ("Status", "Success", "configmaps")


def test_a_collection_is_deleted_by_selector():
    api = ApiServer()
    for name, label in (("a", "x"), ("b", "y"), ("c", "x")):
        ok(api, "POST", CLAIMS, claim(name, labels={"l": label}))
    ok(api, "DELETE", CLAIMS, labelSelector="l=x")
    assert [item["metadata"]["name"] for item in ok(api, "GET", CLAIMS)["items"]] == ["b"]


def test_a_namespace_is_deleted_with_its_contents():
    api = ApiServer()
    ok(api, "POST", "/api/v1/namespaces", {"metadata": {"name": "team"}})
    inside = CLAIMS.replace("default", "team")
    ok(api, "POST", inside, claim("plain"))
    ok(api, "POST", inside, claim("held", finalizers=["x.example/1"]))
    assert ok(api, "DELETE", "/api/v1/namespaces/team")["status"] == {"phase": "Terminating"}
    assert [item["metadata"]["name"] for item in ok(api, "GET", inside)["items"]] == ["held"]
    assert refused(api, "POST", inside, claim("late")) == (403, "Forbidden")
    label = {"metadata": {"labels": {"a": "b"}}}
    ok(api, "PATCH", "/api/v1/namespaces/team", label, media=MERGE)
    assert ok(api, "GET", "/api/v1/namespaces/team")["status"] == {"phase": "Terminating"}
    ok(api, "PATCH", f"{inside}/held", {"metadata": {"finalizers": None}}, media=MERGE)
    assert refused(api, "GET", "/api/v1/namespaces/team") == (404, "NotFound")


def test_a_namespace_of_a_common_prefix_is_not_touched():
    api = ApiServer()
    for name in ("a", "a-b", "ab"):
        ok(api, "POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        ok(api, "POST", CLAIMS.replace("default", name), claim())
    ok(api, "DELETE", "/api/v1/namespaces/a")
    everywhere = ok(api, "GET", "/apis/resource.k8s.io/v1/resourceclaims")["items"]
    assert [item["metadata"]["namespace"] for item in everywhere] == ["a-b", "ab"]


CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"


def test_true_is_not_one():
    """Equal in Python, different in JSON: this must count as a change."""
    api = ApiServer()
    opaque = {"driver": "a.example.com", "parameters": {"extra": 1}}
    ok(api, "POST", CLASSES, {"metadata": {"name": "m"}, "spec": {"config": [{"opaque": opaque}]}})
    opaque["parameters"] = {"extra": True}
    found = ok(api, "PATCH", f"{CLASSES}/m", {"spec": {"config": [{"opaque": opaque}]}}, media=MERGE)
    assert found["spec"]["config"][0]["opaque"]["parameters"]["extra"] is True


def test_manifests_are_loaded_with_their_namespaces_and_status():
    api = ApiServer()
    head = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
    wanted = {**head, **claim("a", namespace="team"), "status": {"allocation": allocation()}}
    api.load([wanted])
    found = ok(api, "GET", CLAIMS.replace("default", "team") + "/a")
    assert found["status"] == {"allocation": allocation()}


def test_a_namespace_may_follow_its_objects():
    """Manifests are in any order; the labels of the namespace are applied in any case."""
    api = ApiServer()
    head = {"apiVersion": "v1", "kind": "Namespace"}
    inside = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "team"}}
    api.load([inside, {**head, "metadata": {"name": "team", "labels": {"a": "b"}}}])
    labels = ok(api, "GET", "/api/v1/namespaces/team")["metadata"]["labels"]
    assert labels == {"a": "b", "kubernetes.io/metadata.name": "team"}


@pytest.mark.parametrize(
    ("manifest", "named"),
    [
        (
            {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", **claim("Bad_Name")},
            "ResourceClaim Bad_Name",
        ),
        (
            {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}},
            "Thing t.* leave it out",
        ),
        (
            {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": {"name": "g"}},
            "PodGroup g.* use scheduling.k8s.io/v1beta1 or scheduling.k8s.io/v1alpha3",
        ),
        ({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": 1}}, "Pod p"),
    ],
)
def test_a_manifest_that_is_refused_is_named(manifest, named):
    with pytest.raises(Rejected, match=named):
        ApiServer().load([manifest])


@pytest.mark.loopback
async def test_no_update_is_lost_among_concurrent_writers():
    """Each writer reads, adds one and writes with the version it read, until the write succeeds."""
    api, writers, rounds = ApiServer(), 8, 12

    async def count(session, url):
        for _ in range(rounds):
            while True:
                async with session.get(url) as answer:
                    counter = await answer.json()
                counter["data"]["n"] = str(int(counter["data"]["n"]) + 1)
                async with session.put(url, json=counter) as answer:
                    if answer.status == 200:
                        break
                    assert answer.status == 409

    ok(api, "POST", MAPS, {"metadata": {"name": "m"}, "data": {"n": "0"}})
    async with serve(api) as base, aiohttp.ClientSession() as session, asyncio.TaskGroup() as group:
        for _ in range(writers):
            group.create_task(count(session, f"{base}{MAPS}/m"))
    assert ok(api, "GET", f"{MAPS}/m")["data"]["n"] == str(writers * rounds)


def test_responses_never_share_stored_objects():
    """Responses are bytes: changes to a decoded response do not change the store."""
    api = ApiServer()
    body = claim()
    ok(api, "POST", CLAIMS, body)
    body["spec"]["devices"]["requests"][0]["name"] = "changed"
    status, found = call(api, "GET", f"{CLAIMS}/c")
    assert (status, json.dumps(found).count("changed")) == (200, 0)


def test_a_status_of_a_pod_names_only_claims_that_the_pod_has():
    api = ApiServer()
    ok(api, "POST", PODS, pod(resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "t"}]))

    def named(name):
        status = {"resourceClaimStatuses": [{"name": name, "resourceClaimName": "c"}]}
        return {"status": status}

    field = ("status.resourceClaimStatuses[0].name", "FieldValueInvalid")
    assert causes(api, "PATCH", f"{PODS}/p/status", named("nic"), media=MERGE) == [field]
    ok(api, "PATCH", f"{PODS}/p/status", named("gpu"), media=MERGE)


def test_one_object_at_a_version_of_the_future_is_a_timeout():
    api = ApiServer()
    ok(api, "POST", CLAIMS, claim())
    assert refused(api, "GET", f"{CLAIMS}/c", resourceVersion="999") == (504, "Timeout")
    ok(api, "GET", f"{CLAIMS}/c", resourceVersion=str(api.store.version))


@pytest.mark.parametrize(
    ("taints", "found"),
    [
        ([{"key": "a"}], ("spec.taints[0].effect", "FieldValueRequired")),
        ([{"key": "a", "effect": "None"}], ("spec.taints[0].effect", "FieldValueNotSupported")),
        ([{"key": "a b", "effect": "NoExecute"}], ("spec.taints[0].key", "FieldValueInvalid")),
        (
            [{"key": "a", "value": "b c", "effect": "NoExecute"}],
            ("spec.taints[0].value", "FieldValueInvalid"),
        ),
        (2 * [{"key": "a", "effect": "NoExecute"}], ("spec.taints[1]", "FieldValueDuplicate")),
    ],
    ids=str,
)
def test_taints_of_nodes(taints, found):
    node = {"metadata": {"name": "n"}, "spec": {"taints": taints}}
    assert found in causes(ApiServer(), "POST", "/api/v1/nodes", node)


def test_what_is_created_has_no_version_yet():
    made = {"metadata": {"name": "a", "resourceVersion": "1"}, "spec": {"devices": {}}}
    assert call(ApiServer(), "POST", CLAIMS, made)[0] == 500
