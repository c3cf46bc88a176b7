"""The three patch languages."""

import copy

import pytest

from reconciler.api.validation.bodies import Refusal
from reconciler.api.validation.kinds import strategic_merge
from reconciler.api.validation.served_kinds import CLAIM, POD
from reconciler.embedded import ApiServer
from reconciler.embedded.bodies import apply_json_patch, merge
from tests.tools.driving import (
    CLAIMS,
    JSON_PATCH,
    MERGE,
    PODS,
    STRATEGIC,
    allocation,
    claim,
    ok,
    pod,
    refused,
)

APPLY = "application/apply-patch+yaml"
JSON_CASES = {
    "add a key": ({"a": 1}, [{"op": "add", "path": "/b", "value": 2}], {"a": 1, "b": 2}),
    "add replaces": ({"a": 1}, [{"op": "add", "path": "/a", "value": 2}], {"a": 2}),
    "append": ({"a": [1]}, [{"op": "add", "path": "/a/-", "value": 2}], {"a": [1, 2]}),
    "insert": ({"a": [1]}, [{"op": "add", "path": "/a/0", "value": 2}], {"a": [2, 1]}),
    "add null": ({}, [{"op": "add", "path": "/a", "value": None}], {"a": None}),
    "remove": ({"a": 1, "b": 2}, [{"op": "remove", "path": "/a"}], {"b": 2}),
    "remove an element": ({"a": [1, 2]}, [{"op": "remove", "path": "/a/0"}], {"a": [2]}),
    "replace": ({"a": {"b": 1}}, [{"op": "replace", "path": "/a/b", "value": []}], {"a": {"b": []}}),
    "replace what is not there": ({"a": 1}, [{"op": "replace", "path": "/b", "value": 2}], {"a": 1, "b": 2}),
    "replace an element": ({"a": [1, 2]}, [{"op": "replace", "path": "/a/1", "value": 3}], {"a": [1, 3]}),
    "replace all": ({"a": 1}, [{"op": "replace", "path": "", "value": {"b": 1}}], {"b": 1}),
    "move": ({"a": 1}, [{"op": "move", "from": "/a", "path": "/b"}], {"b": 1}),
    "copy": ({"a": [1]}, [{"op": "copy", "from": "/a", "path": "/b"}], {"a": [1], "b": [1]}),
    "escapes": ({"a/b": {"~": 1}}, [{"op": "remove", "path": "/a~1b/~0"}], {"a/b": {}}),
    "the empty key": ({"": 1}, [{"op": "test", "path": "/", "value": 1}], {"": 1}),
}


@pytest.mark.parametrize(("document", "patch", "expected"), JSON_CASES.values(), ids=JSON_CASES.keys())
def test_json_patch(document, patch, expected):
    before = copy.deepcopy(document)
    assert apply_json_patch(document, patch) == expected
    assert document == before, "the document is not written to"


@pytest.mark.parametrize(
    ("patch", "code"),
    [
        ({}, 400),
        ([1], 400),
        ([{"op": "add", "path": "/a"}], 400),
        ([{"op": "add", "path": "a", "value": 1}], 400),
        ([{"op": "move", "path": "/a"}], 400),
        ([{"op": "mend", "path": "/a"}], 400),
        ([{"op": "remove", "path": "/nope"}], 422),
        ([{"op": "replace", "path": "/nope/nope", "value": 1}], 422),
        ([{"op": "add", "path": "/nope/deeper", "value": 1}], 422),
        ([{"op": "add", "path": "/list/7", "value": 1}], 422),
        ([{"op": "add", "path": "/list/x", "value": 1}], 422),
        ([{"op": "add", "path": "/text/x", "value": 1}], 422),
        ([{"op": "test", "path": "/one", "value": True}], 422),
        ([{"op": "add", "path": "/a", "value": 1}] * 10_001, 413),
    ],
)
def test_a_json_patch_that_does_not_fit_is_refused(patch, code):
    with pytest.raises(Refusal) as caught:
        apply_json_patch({"list": [1], "text": "", "one": 1}, patch)
    assert caught.value.code == code


MERGE_CASES = {
    "the standard's example": (
        {"title": "Goodbye!", "author": {"givenName": "John", "familyName": "Doe"}, "tags": ["a", "b"]},
        {"title": "Hello!", "phone": "1", "author": {"familyName": None}, "tags": ["a"]},
        {"title": "Hello!", "author": {"givenName": "John"}, "tags": ["a"], "phone": "1"},
    ),
    "objects replace values": ({"a": 1}, {"a": {"b": 1, "c": None}}, {"a": {"b": 1}}),
    "values replace objects": ({"a": {"b": 1}}, {"a": 1}, {"a": 1}),
    "nothing": ({"a": 1}, {}, {"a": 1}),
}


@pytest.mark.parametrize(("document", "patch", "expected"), MERGE_CASES.values(), ids=MERGE_CASES.keys())
def test_merge_patch(document, patch, expected):
    before = copy.deepcopy(document)
    assert merge(document, patch) == expected
    assert document == before


def spec(**fields):
    return {"spec": fields}


def status(**fields):
    return {"status": fields}


BOTH = [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}]
CBA = [{"name": name} for name in "cba"]
STRATEGIC_CASES = {
    "containers merge by name, env inside them too": (
        spec(containers=[{"name": "a", "image": "1", "env": [{"name": "X", "value": "1"}]}, {"name": "b"}]),
        spec(containers=[{"name": "a", "image": "2", "env": [{"name": "Y", "value": "2"}]}, {"name": "c"}]),
        spec(containers=[{"name": "a", "image": "2", "env": BOTH}, {"name": "b"}, {"name": "c"}]),
    ),
    "an element is deleted by name": (
        spec(schedulingGates=[{"name": "a"}, {"name": "b"}]),
        spec(schedulingGates=[{"$patch": "delete", "name": "a"}]),
        spec(schedulingGates=[{"name": "b"}]),
    ),
    "deleting what is not there": (
        spec(schedulingGates=[{"name": "b"}]),
        spec(schedulingGates=[{"$patch": "delete", "name": "a"}]),
        spec(schedulingGates=[{"name": "b"}]),
    ),
    "a merged list can be replaced": (
        spec(volumes=[{"name": "a"}, {"name": "b"}]),
        spec(volumes=[{"$patch": "replace"}, {"name": "c"}]),
        spec(volumes=[{"name": "c"}]),
    ),
    "tolerations are replaced": (
        spec(tolerations=[{"key": "a"}]),
        spec(tolerations=[{"key": "b"}]),
        spec(tolerations=[{"key": "b"}]),
    ),
    "null removes a list": (spec(volumes=[{"name": "a"}]), spec(volumes=None), spec()),
    "an order is followed": (
        spec(containers=[{"name": "a"}, {"name": "b"}]),
        spec(**{"$setElementOrder/containers": CBA, "containers": CBA[:1]}),
        spec(containers=CBA),
    ),
    "retained keys": (
        spec(volumes=[{"name": "a", "emptyDir": {}}]),
        spec(volumes=[{"$retainKeys": ["name", "hostPath"], "name": "a", "hostPath": {"path": "/"}}]),
        spec(volumes=[{"name": "a", "hostPath": {"path": "/"}}]),
    ),
    "a map is replaced": (
        spec(nodeSelector={"a": "1"}),
        spec(nodeSelector={"$patch": "replace", "b": "2"}),
        spec(nodeSelector={"b": "2"}),
    ),
    "finalizers are a set": (
        {"metadata": {"finalizers": ["a", "b"]}},
        {"metadata": {"finalizers": ["b", "c"], "$deleteFromPrimitiveList/finalizers": ["a"]}},
        {"metadata": {"finalizers": ["b", "c"]}},
    ),
    "owners merge by uid": (
        {"metadata": {"ownerReferences": [{"uid": "1", "name": "a"}]}},
        {"metadata": {"ownerReferences": [{"uid": "1", "name": "b"}, {"uid": "2"}]}},
        {"metadata": {"ownerReferences": [{"uid": "1", "name": "b"}, {"uid": "2"}]}},
    ),
    "conditions merge by type": (
        status(conditions=[{"type": "Ready", "status": "False"}, {"type": "X", "status": "True"}]),
        status(conditions=[{"type": "Ready", "status": "True"}]),
        status(conditions=[{"type": "Ready", "status": "True"}, {"type": "X", "status": "True"}]),
    ),
    "claim statuses merge by name": (
        status(resourceClaimStatuses=[{"name": "a", "resourceClaimName": "x"}]),
        status(resourceClaimStatuses=[{"name": "b", "resourceClaimName": "y"}]),
        status(resourceClaimStatuses=[{"name": n, "resourceClaimName": c} for n, c in ("ax", "by")]),
    ),
}


@pytest.mark.parametrize(
    ("document", "patch", "expected"), STRATEGIC_CASES.values(), ids=STRATEGIC_CASES.keys()
)
def test_strategic_merge_patch_of_a_pod(document, patch, expected):
    before = copy.deepcopy(document)
    assert strategic_merge(document, patch, POD.strategic or {}) == expected
    assert document == before


def test_a_patch_without_its_merge_key_is_refused():
    with pytest.raises(Refusal, match="merge key"):
        strategic_merge({}, spec(containers=[{"image": "x"}]), POD.strategic or {})
    with pytest.raises(Refusal, match="unknown directive"):
        strategic_merge({}, {"$mend": 1}, POD.strategic or {})


def test_a_reservation_is_removed_like_the_scheduler_does():
    """By uid, with a uid precondition on the claim."""
    api = ApiServer()
    uid = ok(api, "POST", CLAIMS, claim())["metadata"]["uid"]
    consumers = [{"resource": "pods", "name": name, "uid": name} for name in ("p", "q")]
    status = {"allocation": allocation(), "reservedFor": consumers}
    ok(api, "PATCH", f"{CLAIMS}/c/status", {"status": status}, media=STRATEGIC)
    undo = {"metadata": {"uid": uid}, "status": {"reservedFor": [{"$patch": "delete", "uid": "p"}]}}
    undone = ok(api, "PATCH", f"{CLAIMS}/c/status", undo, media=STRATEGIC)
    assert undone["status"]["reservedFor"] == consumers[1:]
    undo["metadata"] = {"uid": "other"}
    assert refused(api, "PATCH", f"{CLAIMS}/c/status", undo, media=STRATEGIC) == (422, "Invalid")
    assert strategic_merge({}, {"status": {"reservedFor": consumers}}, CLAIM.strategic or {})


def test_an_applied_configuration_creates_or_merges():
    api = ApiServer()
    kind, applied = {"apiVersion": "v1", "kind": "Pod"}, {"media": APPLY, "fieldManager": "t"}
    made = ok(api, "PATCH", f"{PODS}/p", {**kind, **pod()}, **applied)
    assert made["metadata"]["name"] == "p"
    answer = refused(api, "PATCH", f"{PODS}/q", {**kind, **pod("other")}, **applied)
    assert answer == (400, "BadRequest")
    answer = refused(api, "PATCH", f"{PODS}/q/status", {**kind, **pod("q")}, **applied)
    assert answer == (404, "NotFound")
    for body in (b"a: &a [x]\nb: &b [*a, *a]\n", b"a: [", b"!!python/object:os.system {}", b"- 1"):
        assert refused(api, "PATCH", f"{PODS}/p", body, **applied) == (400, "BadRequest")
    assert refused(api, "POST", PODS, b"metadata: {name: q}", media="application/yaml")[0] == 415
    text = b"apiVersion: v1\nkind: Pod\nmetadata: {name: p, labels: {a: b}}\n"
    text += b"spec: {containers: [{name: main, image: other}]}\n"
    (container,) = ok(api, "PATCH", f"{PODS}/p", text, **applied)["spec"]["containers"]
    assert container["image"] == "other"


@pytest.mark.parametrize(
    ("media", "body", "answer"),
    [
        ("application/json", {}, (415, "UnsupportedMediaType")),
        ("text/plain", {}, (415, "UnsupportedMediaType")),
        (STRATEGIC, [], (400, "BadRequest")),
        (MERGE, [1], (400, "BadRequest")),
        (MERGE, b"{", (400, "BadRequest")),
        (JSON_PATCH, [{"op": "replace", "path": "", "value": 1}], (422, "Invalid")),
        (JSON_PATCH, [{"op": "replace", "path": "/metadata", "value": 1}], (422, "Invalid")),
        (APPLY, b"a: [", (400, "BadRequest")),
        (MERGE, {"metadata": {"name": "q"}}, (400, "BadRequest")),
        (MERGE, {"metadata": {"name": None}}, (400, "BadRequest")),
        (MERGE, {"kind": "Pod"}, (400, "BadRequest")),
        (MERGE, {"kind": None}, (400, "BadRequest")),
        (MERGE, {"apiVersion": None}, (400, "BadRequest")),
        (STRATEGIC, {"apiVersion": None}, (400, "BadRequest")),
    ],
)
def test_a_patch_that_cannot_be_read_changes_nothing(media, body, answer):
    api = ApiServer()
    before = ok(api, "POST", CLAIMS, claim())
    manager = {"fieldManager": "t"} if "apply" in media else {}
    assert refused(api, "PATCH", f"{CLAIMS}/c", body, media=media, **manager) == answer
    assert ok(api, "GET", f"{CLAIMS}/c") == before
