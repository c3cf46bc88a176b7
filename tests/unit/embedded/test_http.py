"""The server on a real socket: behaviour that needs a socket."""

import asyncio
import io
import json
from datetime import UTC, datetime, timedelta

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.api.validation.fields import age
from reconciler.embedded import ApiServer, serve
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
from tests.tools.patience import PATIENCE

JSON = {"Content-Type": "application/json"}


@pytest.mark.loopback
async def test_a_large_body_is_refused_whether_announced_or_not():
    async def chunks():
        for _ in range(4):
            yield b" " * 2**20

    async with serve(ApiServer()) as url, aiohttp.ClientSession() as session:
        for body in (io.BytesIO(b" " * (4 * 2**20)), chunks()):
            async with session.post(url + CLAIMS, data=body, headers=JSON) as answer:
                assert answer.status == 413
                assert (await answer.json())["reason"] == "RequestEntityTooLarge"


@pytest.mark.loopback
async def test_nothing_of_a_malformed_request_is_repeated():
    async with serve(ApiServer()) as url:
        reader, writer = await asyncio.open_connection(*url.removeprefix("http://").split(":"))
        writer.write(b"GET /api HTTP/1.1\r\nHo st: secret\r\n\r\n")
        answer = await reader.read()
        writer.close()
    assert b" 400 " in answer
    assert b"secret" not in answer


@pytest.mark.loopback
async def test_leaving_ends_open_watches():
    async with aiohttp.ClientSession() as session:
        async with serve(ApiServer()) as url:
            watch = await session.get(url + CLAIMS, params={"watch": "1"})
            assert watch.status == 200
        with pytest.raises(aiohttp.ClientError):
            await watch.content.read()
        watch.close()


@pytest.mark.loopback
async def test_a_disconnected_reader_is_removed():
    api = ApiServer()
    shelf = next(shelf for shelf in api.store if shelf.kind.plural == "resourceclaims")
    async with serve(api) as url, aiohttp.ClientSession() as session:
        watch = await session.get(url + CLAIMS, params={"watch": "1"})
        assert len(shelf._waiters) == 1
        watch.close()
        async with asyncio.timeout(PATIENCE):
            while shelf._waiters:
                async with session.get(url + "/readyz") as answer:
                    assert await answer.text() == "ok"


@pytest.mark.loopback
async def test_live_changes_reach_a_watch_line_by_line():
    api = ApiServer()
    async with (
        serve(api) as url,
        aiohttp.ClientSession() as session,
        session.get(url + CLAIMS, params={"watch": "1", "timeoutSeconds": "1"}) as watch,
    ):
        for name in "ab":
            ok(api, "POST", CLAIMS, claim(name))
            assert json.loads(await watch.content.readline())["object"]["metadata"]["name"] == name
        assert await watch.content.readline() == b"", "the server closes when the time is over"


@pytest.mark.loopback
async def test_paths_and_selectors_may_be_percent_encoded():
    api = ApiServer()
    ok(api, "POST", CLAIMS, claim("a", labels={"x": "y"}))
    async with serve(api) as url, aiohttp.ClientSession() as session:
        encoded = f"{url}{CLAIMS}?labelSelector=x%20in%20%28y%29"
        async with session.get(encoded) as answer:
            assert len((await answer.json())["items"]) == 1


# -- Lists: selectors, and pages that together are one consistent snapshot.


def names(listing):
    return [item["metadata"]["name"] for item in listing["items"]]


def pages(api, limit, between=lambda: None):
    """All pages of the claims, with something happening after each."""
    page = ok(api, "GET", CLAIMS, limit=str(limit))
    found = [page]
    while page["metadata"].get("continue"):
        between()
        page = ok(api, "GET", CLAIMS, limit=str(limit), **{"continue": page["metadata"]["continue"]})
        found.append(page)
    return found


@given(count=st.integers(0, 12), limit=st.integers(1, 5), seed=st.randoms(use_true_random=False))
def test_pages_are_one_list_despite_writes_in_between(count, limit, seed):
    api = ApiServer()
    for i in range(count):
        ok(api, "POST", CLAIMS, claim(f"c{i:02}"))
    whole = ok(api, "GET", CLAIMS)

    def write():
        kind, name = seed.choice(["POST", "PATCH", "DELETE"]), f"c{seed.randrange(16):02}"
        exists = name in names(ok(api, "GET", CLAIMS))
        if kind == "POST" and not exists:
            ok(api, "POST", CLAIMS, claim(name))
        elif kind == "PATCH" and exists:
            ok(
                api,
                "PATCH",
                f"{CLAIMS}/{name}",
                {"metadata": {"labels": {"n": str(api.store.version)}}},
                media=MERGE,
            )
        elif kind == "DELETE" and exists:
            ok(api, "DELETE", f"{CLAIMS}/{name}")

    found = pages(api, limit, between=write)
    assert [item for page in found for item in page["items"]] == whole["items"]
    assert {page["metadata"]["resourceVersion"] for page in found} == {whole["metadata"]["resourceVersion"]}
    left = [page["metadata"].get("remainingItemCount", 0) for page in found]
    assert left == [max(count - limit * (i + 1), 0) for i in range(len(found))]


def test_a_page_whose_history_is_gone_is_expired():
    api = ApiServer()
    for name in "abc":
        ok(api, "POST", CLAIMS, claim(name))
    token = ok(api, "GET", CLAIMS, limit="1")["metadata"]["continue"]
    ok(api, "POST", CLAIMS, claim("d"))
    api.store.compact()
    assert refused(api, "GET", CLAIMS, limit="1", **{"continue": token}) == (410, "Expired")
    assert refused(api, "GET", CLAIMS, resourceVersion="1", resourceVersionMatch="Exact") == (410, "Expired")


def test_a_list_can_be_at_an_earlier_version():
    api = ApiServer()
    ok(api, "POST", CLAIMS, claim("a"))
    then = ok(api, "GET", CLAIMS)
    ok(api, "DELETE", f"{CLAIMS}/a")
    version = then["metadata"]["resourceVersion"]
    assert ok(api, "GET", CLAIMS, resourceVersion=version, resourceVersionMatch="Exact") == then
    assert names(ok(api, "GET", CLAIMS, resourceVersion=version, resourceVersionMatch="NotOlderThan")) == []
    assert names(ok(api, "GET", CLAIMS, resourceVersion="0")) == []


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        ({"continue": "bm9wZQ=="}, (400, "BadRequest")),
        ({"continue": "%%%"}, (400, "BadRequest")),
        ({"limit": "-1"}, (400, "BadRequest")),
        ({"resourceVersion": "x"}, (400, "BadRequest")),
        ({"resourceVersionMatch": "Exact"}, (422, "Invalid")),
        ({"resourceVersion": "1", "resourceVersionMatch": "Never"}, (422, "Invalid")),
        ({"resourceVersion": "0", "resourceVersionMatch": "Exact"}, (422, "Invalid")),
        ({"resourceVersion": "99999"}, (504, "Timeout")),
        ({"labelSelector": "a in (b"}, (400, "BadRequest")),
        ({"labelSelector": "a > x"}, (400, "BadRequest")),
        ({"fieldSelector": "metadata.name"}, (400, "BadRequest")),
        ({"fieldSelector": "spec.nope=1"}, (400, "BadRequest")),
    ],
)
def test_parameters_that_make_no_sense_are_refused(query, answer):
    assert refused(ApiServer(), "GET", CLAIMS, **query) == answer


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("", "abcd"), ("t=x", "ab"), ("t==x", "ab"),
        ("t!=x", "cd"), ("t", "abc"), ("!t", "d"),
        ("t in (x, y)", "abc"), ("t notin (x,y)", "d"), ("n>1", "bc"),
        ("n<2", "a"), ("t=x,n=2", "b"), ("t in (x,y),n>1", "bc"),
        ("example.com/k=v", "d"), ("t=", ""),
    ],
)  # fmt: skip
def test_label_selectors(selector, expected):
    api = ApiServer()
    labels = {"a": {"t": "x", "n": "1"}, "b": {"t": "x", "n": "2"}, "c": {"t": "y", "n": "3"}}
    for name in "abcd":
        ok(api, "POST", CLAIMS, claim(name, labels=labels.get(name, {"example.com/k": "v"})))
    assert names(ok(api, "GET", CLAIMS, labelSelector=selector)) == list(expected)


def test_field_selectors():
    api = ApiServer()
    ok(api, "POST", SLICES, device_slice("a"))
    ok(api, "POST", SLICES, device_slice("b", nodeName=None, allNodes=True, driver="other.example.com"))
    assert names(ok(api, "GET", SLICES, fieldSelector="spec.nodeName=node-1")) == ["a"]
    assert names(ok(api, "GET", SLICES, fieldSelector="spec.nodeName=")) == ["b"]
    assert names(
        ok(api, "GET", SLICES, fieldSelector="spec.driver!=other.example.com,spec.pool.name=node-1")
    ) == ["a"]
    ok(api, "POST", PODS, pod("p"))
    found = names(ok(api, "GET", PODS, fieldSelector="status.phase==Pending,metadata.namespace=default"))
    assert found == ["p"]


def test_all_namespaces_at_once():
    api = ApiServer()
    ok(api, "POST", CLAIMS, claim("b"))
    ok(api, "POST", CLAIMS.replace("default", "kube-system"), claim("a"))
    everywhere = ok(api, "GET", "/apis/resource.k8s.io/v1/resourceclaims")
    found = [(i["metadata"]["namespace"], i["metadata"]["name"]) for i in everywhere["items"]]
    assert found == [("default", "b"), ("kube-system", "a")]


# -- Discovery requests, and tables for kubectl.


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
    found = (rows(api, "/api/v1/nodes")[0]["Status"], rows(api, "/api/v1/nodes")[0]["Roles"])
    assert found == ("Ready", "worker")


async def test_a_watch_can_carry_tables():
    api = ApiServer()
    ok(api, "POST", CLAIMS, claim())
    answer = ok(api, "GET", f"{CLAIMS}/c", accept=TABLE, includeObject="Object")
    assert answer["rows"][0]["object"]["kind"] == "ResourceClaim"
    assert ok(api, "GET", CLAIMS, accept=TABLE, includeObject="None")["rows"][0].keys() == {"cells"}
    async for event in watch(api, CLAIMS, accept=TABLE):
        found = (event["type"], event["object"]["kind"], event["object"]["rows"][0]["cells"][0])
        assert found == ("ADDED", "Table", "c")
        break


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0s"), (119, "119s"), (120, "2m"),
        (150, "2m30s"), (3600, "60m"), (3 * 3600, "3h"),
        (3 * 3600 + 60, "3h1m"), (10 * 3600, "10h"), (3 * 86400, "3d"),
        (3 * 86400 + 3600, "3d1h"), (30 * 86400, "30d"),
    ],
)  # fmt: skip
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
    draw = {"counterSet": "s", "counters": {"c": {"value": "1"}}}
    part = {"name": "d", "attributes": {"kind": {"string": "1g"}}, "consumesCounters": [draw]}
    pool = {"name": "p", "resourceSliceCount": 2}
    spec = {"driver": "d.example.com", "nodeName": "n", "pool": pool, "devices": [part]}
    made = {"metadata": {"name": "s"}, "spec": {**spec, "partitionTypeAttribute": "d.example.com/kind"}}
    kept = ok(api, "POST", "/apis/resource.k8s.io/v1/resourceslices", made)["spec"]
    assert ("partitionTypeAttribute" in kept) is (release == 37)
