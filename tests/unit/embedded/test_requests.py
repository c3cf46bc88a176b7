"""Malformed requests get a Status, never a crash."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.embedded import ApiServer, Request, Response
from tests.tools.driving import CLAIMS, MERGE, PODS, SLICES, call, claim, ok, pod, refused
from tests.tools.examples import examples

DEEP = b'{"metadata":{"name":"a","annotations":' + b'{"a":' * 300 + b"1" + b"}" * 302

BAD_BODIES = {
    "empty": b"",
    "not JSON": b"{not json",
    "not UTF-8": b'{"a":"\xff\xfe"}',
    "not an object": b"[]",
    "a number that is none": b'{"spec":NaN}',
    "a number beyond range": b'{"spec":1e999}',
    "a number of many digits": b'{"spec":' + b"9" * 10_000 + b"}",
    "nested too deeply": DEEP,
    "nested absurdly": b"[" * 100_000,
    "metadata of another type": b'{"metadata":[]}',
    "a name of another type": b'{"metadata":{"name":1}}',
    "labels of another type": b'{"metadata":{"name":"a","labels":{"x":1}}}',
    "owners of another type": b'{"metadata":{"name":"a","ownerReferences":[1]}}',
    "a spec of another type": b'{"metadata":{"name":"a"},"spec":[]}',
    "requests of another type": b'{"metadata":{"name":"a"},"spec":{"devices":{"requests":{}}}}',
    "a count of another type": (
        b'{"metadata":{"name":"a"},"spec":{"devices":{"requests":[{"name":"r","exactly":{"count":true}}]}}}'
    ),
    "another version": b'{"apiVersion":"resource.k8s.io/v1beta1","kind":"ResourceClaim"}',
    "another namespace": b'{"metadata":{"name":"a","namespace":"other"}}',
}


@pytest.mark.parametrize("body", BAD_BODIES.values(), ids=BAD_BODIES.keys())
def test_a_body_that_cannot_be_read_is_a_bad_request(body):
    api = ApiServer()
    assert refused(api, "POST", CLAIMS, body) == (400, "BadRequest")
    assert ok(api, "GET", CLAIMS)["items"] == []


@pytest.mark.parametrize(
    ("path", "body"),
    [
        pytest.param(
            "/apis/resource.k8s.io/v1beta1/resourceslices",
            {"metadata": {"name": "s"}, "spec": {"driver": "d", "devices": [{"name": {}}, {"name": []}]}},
            id="devices called by objects",
        ),
        pytest.param("/api/v1/namespaces", {"metadata": {}}, id="a namespace without a name"),
    ],
)
def test_odd_names_are_refused_and_break_nothing(path, body):
    code, _ = refused(ApiServer(), "POST", path, json.dumps(body).encode())
    assert code in (400, 422)


ANSWERS = {
    "no such object": ("GET", f"{CLAIMS}/nope", 404, "NotFound"),
    "no such kind": ("GET", "/api/v1/namespaces/default/nopes", 404, "NotFound"),
    "no such subresource": ("GET", f"{CLAIMS}/c/nope", 404, "NotFound"),
    "no status here": ("GET", f"{SLICES}/s/status", 404, "NotFound"),
    "too deep a path": ("GET", f"{CLAIMS}/c/status/x", 404, "NotFound"),
    "a cluster-scoped kind in a namespace": (
        "GET",
        "/apis/resource.k8s.io/v1/namespaces/default/resourceslices",
        404,
        "NotFound",
    ),
    "an object without its namespace": ("GET", "/apis/resource.k8s.io/v1/resourceclaims/c", 404, "NotFound"),
    "an empty name": ("GET", f"{CLAIMS}//status", 404, "NotFound"),
    "creating under a name": ("POST", f"{CLAIMS}/c", 405, "MethodNotAllowed"),
    "replacing a collection": ("PUT", CLAIMS, 405, "MethodNotAllowed"),
    "creating in all namespaces": ("POST", "/api/v1/pods", 405, "MethodNotAllowed"),
    "deleting a status": ("DELETE", f"{CLAIMS}/c/status", 405, "MethodNotAllowed"),
    "reading a binding": ("GET", f"{PODS}/p/binding", 405, "MethodNotAllowed"),
    "writing discovery": ("POST", "/apis", 405, "MethodNotAllowed"),
    "a strange method": ("BREW", CLAIMS, 405, "MethodNotAllowed"),
}


@pytest.mark.parametrize(("method", "path", "code", "reason"), ANSWERS.values(), ids=ANSWERS.keys())
def test_paths_and_methods_that_are_not_served(method, path, code, reason):
    assert refused(ApiServer(), method, path, {} if method == "POST" else None) == (code, reason)


@pytest.mark.parametrize("path", ["/", "/nope", "/apis/nope.k8s.io/v1/things", "/api/v2/pods", "/openapi/v4"])
def test_paths_below_nothing_are_plain_text_as_on_a_real_server(path):
    assert call(ApiServer(), "GET", path) == (404, "404 page not found\n")


def test_a_body_that_is_too_large_is_refused():
    assert refused(ApiServer(), "POST", CLAIMS, b" " * (3 * 2**20 + 1)) == (413, "RequestEntityTooLarge")


def test_unsupported_media_types():
    api = ApiServer()
    assert refused(api, "POST", CLAIMS, claim(), media="application/cbor") == (415, "UnsupportedMediaType")
    assert refused(api, "GET", CLAIMS, accept="application/vnd.kubernetes.protobuf") == (406, "NotAcceptable")
    both = "application/vnd.kubernetes.protobuf,application/json"
    assert ok(api, "GET", CLAIMS, accept=both)["kind"] == "ResourceClaimList"


SERVICE_IN_PROTOBUF = (
    b'k8s\x00\n\r\n\x02v1\x12\x07Service\x12l\n\x1f\n\x03x36\x12\x00\x1a\x00"\x00*\x002\x008\x00B\x00Z\n\n\x03app\x12\x03x36'
    b'\x12E\n\x1e\n\x0780-http\x12\x03TCP\x18P"\n\x08\x01\x10\x00\x1a\x04http(\x00\x12\n\n\x03app\x12\x03x36\x1a\x00"\tClusterIP'
    b':\x00B\x00R\x00Z\x00`\x00h\x00\x1a\x02\n\x00\x1a\x00"\x00'
)
"""What `kubectl create service clusterip x36 --tcp=80:http` of 1.36 sends"""


def test_delete_options_in_protobuf():
    """What `kubectl drain` sends. The dry run deletes nothing, a precondition that does not hold neither."""
    api, media = ApiServer(), "application/vnd.kubernetes.protobuf"
    ok(api, "POST", PODS, pod())
    head = b"k8s\x00\n\x13\n\x02v1\x12\rDeleteOptions\x12"
    found = refused(api, "DELETE", f"{PODS}/p", head + b"\x05\x12\x03\n\x01x", media=media)
    assert found == (409, "Conflict")
    ok(api, "DELETE", f"{PODS}/p", head + b"\x05*\x03All", media=media)
    ok(api, "DELETE", f"{PODS}/p", head + b'\x02\x08\x05\x1a\x00"\x00', media=media)
    assert refused(api, "GET", f"{PODS}/p") == (404, "NotFound")


def test_a_service_in_protobuf():
    path, media = "/api/v1/namespaces/default/services", "application/vnd.kubernetes.protobuf"
    made = ok(ApiServer(), "POST", path, SERVICE_IN_PROTOBUF, media=media)
    assert made["metadata"]["labels"] == {"app": "x36"}
    assert made["spec"] == {
        "ports": [{"name": "80-http", "protocol": "TCP", "port": 80, "targetPort": "http"}],
        "selector": {"app": "x36"},
        "type": "ClusterIP",
    }


FIELDS = [
    "metadata", "spec", "status", "name", "devices", "requests", "exactly", "firstAvailable", "pool",
    "driver", "attributes", "capacity", "taints", "consumesCounters", "sharedCounters", "nodeSelector",
    "nodeSelectorTerms", "matchExpressions", "allocation", "results", "reservedFor", "containers",
    "resourceClaims", "schedulingGates", "conditions", "config", "constraints", "tolerations", "labels",
    "affinity", "basic", "data", "involvedObject", "requestPolicy", "validRange", "value", "counters",
]  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=5),
    max_leaves=25,
)
COLLECTIONS = (
    CLAIMS, SLICES, PODS, CLAIMS.replace("/v1/", "/v1beta1/"), SLICES.replace("/v1/", "/v1beta1/"),
    "/apis/resource.k8s.io/v1/deviceclasses", "/apis/resource.k8s.io/v1/devicetaintrules",
    "/apis/resource.k8s.io/v1beta1/namespaces/default/resourceclaimtemplates", "/api/v1/nodes",
    "/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default/events",
    "/apis/events.k8s.io/v1/namespaces/default/events",
    "/apis/coordination.k8s.io/v1/namespaces/default/leases", "/api/v1/namespaces/default/services",
)  # fmt: skip


@examples(60)
@given(
    path=st.sampled_from(COLLECTIONS),
    fields=st.dictionaries(st.sampled_from(["spec", "status", "data"]), JSON),
)
def test_no_object_of_whatever_shape_breaks_the_server(path, fields):
    """It is stored or refused; and if stored, every version and the table can show it."""
    api = ApiServer()
    status, body = call(api, "POST", path, {"metadata": {"name": "x"}, **fields})
    assert status in (201, 400, 422), body
    if status == 201:
        for version in ("v1", "v1beta1"):
            shown = path.replace("/v1beta1/", "/v1/").replace("k8s.io/v1/", f"k8s.io/{version}/")
            if call(api, "GET", shown)[0] != 404:
                assert len(ok(api, "GET", shown)["items"]) == 1
        assert len(ok(api, "GET", path, accept="application/json;as=Table;v=v1;g=meta.k8s.io")["rows"]) == 1


@examples(60)
@given(
    path=st.sampled_from([f"{CLAIMS}/c", f"{CLAIMS}/c/status", f"{PODS}/p", f"{PODS}/p/status"]), patch=JSON
)
def test_no_patch_of_whatever_shape_breaks_the_server(path, patch):
    api = ApiServer()
    ok(api, "POST", CLAIMS, claim())
    ok(api, "POST", PODS, pod())
    for media in (MERGE, "application/strategic-merge-patch+json", "application/json-patch+json"):
        status, _ = call(api, "PATCH", path, patch, media=media)
        assert status in (200, 400, 409, 422)
    for collection in (CLAIMS, PODS):
        ok(api, "GET", collection, accept="application/json;as=Table")


@examples(40)
@given(raw=st.binary(max_size=60))
def test_no_bytes_break_the_server(raw):
    answer = ApiServer().handle(Request("POST", CLAIMS, body=raw))
    assert isinstance(answer, Response)
    assert json.loads(answer.body)["kind"] == "Status"


HEADS = {
    "/api/v1/namespaces": b"\x0a\x0f\x0a\x02v1\x12\x09Namespace\x12",
    "/api/v1/namespaces/default/services": b"\x0a\x0d\x0a\x02v1\x12\x07Service\x12",
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews": (
        b"\n2\n\x17authorization.k8s.io/v1\x12\x17SelfSubjectAccessReview\x12"
    ),
}
"""Path -> the start of a protobuf envelope with an object of its kind"""
NUMBERS = st.integers(0, 12).flatmap(
    lambda number: st.sampled_from([bytes([number << 3, 7]), bytes([number << 3 | 2, 2, 10, 0])])
)
"""Fields of every number, as a number and as bytes, where the kind may want the other"""


@examples(40)
@given(path=st.sampled_from(sorted(HEADS)), raw=st.binary(max_size=60) | st.lists(NUMBERS).map(b"".join))
def test_no_bytes_in_a_protobuf_envelope_break_the_server(path, raw):
    """Only a few kinds are read from protobuf; the rest is refused."""
    media = "application/vnd.kubernetes.protobuf"
    inner = bytes([18, len(raw) % 128]) + raw
    for body in (
        raw,
        b"k8s\x00" + raw,
        *(b"k8s\x00" + HEADS[path] + bytes([len(x)]) + x for x in (raw, inner)),
    ):
        code, found = call(ApiServer(), "POST", path, body, media=media)
        assert code in (201, 400, 415, 422), found
