"""Discovery requests, and tables for kubectl."""

from datetime import UTC, datetime, timedelta

import pytest

from reconciler.api.validation.fields import age
from reconciler.embedded import ApiServer
from tests.tools.driving import (
    CLAIMS,
    MERGE,
    PODS,
    SLICES,
    allocation,
    call,
    claim,
    device_slice,
    ok,
    pod,
    refused,
    watch,
)

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


def rows(api, path, **options):
    table = ok(api, "GET", path, accept=TABLE, **options)
    header = [column["name"] for column in table["columnDefinitions"]]
    return [dict(zip(header, row["cells"], strict=True)) for row in table["rows"]]


def test_every_advertised_resource_can_be_listed():
    api = ApiServer()
    roots = ["/api/v1"] + [
        f"/apis/{version['groupVersion']}"
        for group in ok(api, "GET", "/apis")["groups"]
        for version in group["versions"]
    ]
    assert "/apis/resource.k8s.io/v1beta1" in roots
    for root in roots:
        for resource in ok(api, "GET", root)["resources"]:
            if "list" in resource["verbs"]:
                assert ok(api, "GET", f"{root}/{resource['name']}")["kind"] == f"{resource['kind']}List"


def test_openapi_says_that_patches_take_field_validation():
    """Without it kubectl would request a schema in another format and fail."""
    api = ApiServer()
    for root, entry in ok(api, "GET", "/openapi/v3")["paths"].items():
        paths = ok(api, "GET", entry["serverRelativeURL"])["paths"]
        patches = [path["patch"] for path in paths.values() if "patch" in path]
        assert patches, root
        assert all(patch["parameters"][0]["name"] == "fieldValidation" for patch in patches)


def test_the_category_of_what_kubectl_get_all_lists():
    resources = ok(ApiServer(), "GET", "/api/v1")["resources"]
    assert [one["name"] for one in resources if "all" in one.get("categories", ())] == ["pods", "services"]


def test_reviews_can_be_created_and_not_listed():
    group = "/apis/authentication.k8s.io/v1"
    resources = {one["name"]: one["verbs"] for one in ok(ApiServer(), "GET", group)["resources"]}
    assert resources == {"selfsubjectreviews": ["create"], "tokenreviews": ["create"]}
    assert refused(ApiServer(), "GET", f"{group}/tokenreviews") == (405, "MethodNotAllowed")


def test_health():
    for path in ("/healthz", "/livez", "/readyz"):
        assert call(ApiServer(), "GET", path) == (200, "ok")


def test_the_state_of_a_claim_in_a_table():
    api = ApiServer()
    ok(api, "POST", CLAIMS, claim(finalizers=["x.example/1"]))
    states = [rows(api, CLAIMS)[0]["State"]]
    consumer = {"resource": "pods", "name": "p", "uid": "u"}
    for status in ({"allocation": allocation()}, {"reservedFor": [consumer]}):
        ok(api, "PATCH", f"{CLAIMS}/c/status", {"status": status}, media=MERGE)
        states.append(rows(api, CLAIMS)[0]["State"])
    ok(api, "DELETE", f"{CLAIMS}/c")
    states.append(rows(api, CLAIMS)[0]["State"])
    freed = {"status": {"allocation": None, "reservedFor": None}}
    ok(api, "PATCH", f"{CLAIMS}/c/status", freed, media=MERGE)
    states.append(rows(api, CLAIMS)[0]["State"])
    assert states == ["pending", "allocated", "allocated,reserved", "deleted,allocated,reserved", "deleted"]


def test_the_columns_of_other_kinds():
    api = ApiServer()
    ok(api, "POST", SLICES, device_slice())
    ok(api, "POST", PODS, pod(schedulingGates=[{"name": "a.example/b"}]))
    node = {
        "metadata": {"name": "n", "labels": {"node-role.kubernetes.io/worker": ""}},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }
    ok(api, "POST", "/api/v1/nodes", node)
    assert rows(api, SLICES)[0] | {"Age": ""} == {
        "Name": "s", "Node": "node-1", "Driver": "gpu.example.com", "Pool": "node-1", "Age": "",
    }  # fmt: skip
    assert rows(api, PODS)[0]["Status"] == "SchedulingGated"
    assert (rows(api, "/api/v1/nodes")[0]["Status"], rows(api, "/api/v1/nodes")[0]["Roles"]) == (
        "Ready",
        "worker",
    )


async def test_a_watch_can_carry_tables():
    api = ApiServer()
    ok(api, "POST", CLAIMS, claim())
    answer = ok(api, "GET", f"{CLAIMS}/c", accept=TABLE, includeObject="Object")
    assert answer["rows"][0]["object"]["kind"] == "ResourceClaim"
    assert ok(api, "GET", CLAIMS, accept=TABLE, includeObject="None")["rows"][0].keys() == {"cells"}
    async for event in watch(api, CLAIMS, accept=TABLE):
        assert (event["type"], event["object"]["kind"], event["object"]["rows"][0]["cells"][0]) == (
            "ADDED",
            "Table",
            "c",
        )
        break


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (150, "2m30s"),
        (3600, "60m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 60, "3h1m"),
        (10 * 3600, "10h"),
        (3 * 86400, "3d"),
        (3 * 86400 + 3600, "3d1h"),
        (30 * 86400, "30d"),
    ],
)
def test_ages_are_short(seconds, shown):
    now = datetime(2026, 1, 31, tzinfo=UTC)
    since = (now - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert age(since, now) == shown


def test_a_patch_below_an_unknown_schema():
    assert call(ApiServer(), "GET", "/openapi/v3/apis/nope/v1")[0] == 404
    assert refused(ApiServer(), "GET", "/apis/resource.k8s.io/v1/nope") == (404, "NotFound")


@pytest.mark.parametrize(
    ("release", "rules", "groups"),
    [
        (36, {"v1beta2", "v1alpha3"}, {"v1alpha2"}),
        (37, {"v1", "v1beta2", "v1alpha3"}, {"v1beta1", "v1alpha3"}),
    ],
)
def test_the_version_and_the_api_are_of_one_release(release, rules, groups):
    api = ApiServer(release=release)
    version = ok(api, "GET", "/version")
    assert (version["minor"], version["gitVersion"][:5]) == (str(release), f"v1.{release}")

    def versions(group, plural):
        found = ok(api, "GET", f"/apis/{group}")["versions"]
        listed = {one["version"]: ok(api, "GET", f"/apis/{one['groupVersion']}") for one in found}
        return {name for name, each in listed.items() if plural in [one["name"] for one in each["resources"]]}

    assert versions("resource.k8s.io", "devicetaintrules") == rules
    assert versions("scheduling.k8s.io", "podgroups") == groups
    spec = {"driver": "d.example.com", "nodeName": "n", "pool": {"name": "p", "resourceSliceCount": 1}}
    made = {"metadata": {"name": "s"}, "spec": {**spec, "partitionTypeAttribute": "d.example.com/kind"}}
    kept = ok(api, "POST", "/apis/resource.k8s.io/v1/resourceslices", made)["spec"]
    assert ("partitionTypeAttribute" in kept) is (release == 37)
