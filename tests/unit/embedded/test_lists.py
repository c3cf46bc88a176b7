"""Lists: selectors, and pages that together are one consistent snapshot."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.embedded import ApiServer
from tests.tools.driving import CLAIMS, MERGE, PODS, SLICES, claim, device_slice, ok, pod, refused


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
    api.compact()
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
        ("", "abcd"),
        ("t=x", "ab"),
        ("t==x", "ab"),
        ("t!=x", "cd"),
        ("t", "abc"),
        ("!t", "d"),
        ("t in (x, y)", "abc"),
        ("t notin (x,y)", "d"),
        ("n>1", "bc"),
        ("n<2", "a"),
        ("t=x,n=2", "b"),
        ("t in (x,y),n>1", "bc"),
        ("example.com/k=v", "d"),
        ("t=", ""),
    ],
)
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
    assert names(ok(api, "GET", PODS, fieldSelector="status.phase==Pending,metadata.namespace=default")) == [
        "p"
    ]


def test_all_namespaces_at_once():
    api = ApiServer()
    ok(api, "POST", CLAIMS, claim("b"))
    ok(api, "POST", CLAIMS.replace("default", "kube-system"), claim("a"))
    everywhere = ok(api, "GET", "/apis/resource.k8s.io/v1/resourceclaims")
    assert [(i["metadata"]["namespace"], i["metadata"]["name"]) for i in everywhere["items"]] == [
        ("default", "b"),
        ("kube-system", "a"),
    ]
