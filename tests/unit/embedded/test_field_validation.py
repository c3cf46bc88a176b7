"""Unknown and doubled fields, and options of requests: refused, told or ignored as a request wants it."""

import json

import pytest

from reconciler.embedded import ApiServer, Request, Response
from tests.tools.driving import (
    CLAIMS,
    JSON_PATCH,
    MERGE,
    PODS,
    STRATEGIC,
    call,
    causes,
    claim,
    ok,
    pod,
    refused,
)

APPLY = "application/apply-patch+yaml"
TYPO = claim()
TYPO["spec"]["devices"]["requests"][0]["exactly"]["cuont"] = 2
WHERE = 'unknown field "spec.devices.requests[0].exactly.cuont"'
DOUBLED = json.dumps(claim()).replace('"name": "r"', '"name": "q", "name": "r"').encode()


def test_a_strict_request_with_an_unknown_field_is_refused():
    api = ApiServer()
    code, found = call(api, "POST", CLAIMS, TYPO, fieldValidation="Strict")
    assert (code, found["reason"]) == (400, "BadRequest")
    assert found["message"].endswith(f"strict decoding error: {WHERE}")
    assert call(api, "GET", f"{CLAIMS}/c")[0] == 404
    _, found = call(api, "POST", CLAIMS, DOUBLED, fieldValidation="Strict")
    assert found["message"].endswith('strict decoding error: duplicate field "spec.devices.requests[0].name"')
    ok(api, "POST", CLAIMS, claim(), fieldValidation="Strict")
    assert refused(api, "PUT", f"{CLAIMS}/c", TYPO, fieldValidation="Strict") == (400, "BadRequest")


@pytest.mark.parametrize(
    ("media", "patch"),
    [
        (MERGE, {"metadata": {"lables": {"a": "b"}}}),
        (STRATEGIC, {"metadata": {"lables": {"a": "b"}}}),
        (JSON_PATCH, [{"op": "add", "path": "/metadata/lables", "value": {"a": "b"}}]),
    ],
)
def test_a_patch_with_an_unknown_field(media, patch):
    api = ApiServer()
    ok(api, "POST", CLAIMS, claim())
    answer = refused(api, "PATCH", f"{CLAIMS}/c", patch, media=media, fieldValidation="Strict")
    assert answer == (422, "Invalid")
    assert "lables" not in ok(api, "PATCH", f"{CLAIMS}/c", patch, media=media)["metadata"]


@pytest.mark.parametrize(("wanted", "warns"), [("Warn", True), ("", True), ("Ignore", False)])
@pytest.mark.parametrize(("body", "why"), [(json.dumps(TYPO).encode(), WHERE), (DOUBLED, "duplicate field")])
def test_an_unknown_field_is_dropped_and_told(wanted, warns, body, why):
    api = ApiServer()
    answer = api.handle(Request("POST", CLAIMS, {"fieldValidation": wanted}, {}, body))
    assert isinstance(answer, Response)
    assert answer.status == 201
    warning = answer.headers.get("Warning", "")
    assert warning.startswith('299 - "') is warns
    assert (why.replace('"', '\\"') in warning) is warns
    (request,) = ok(api, "GET", f"{CLAIMS}/c")["spec"]["devices"]["requests"]
    assert (request["name"], request["exactly"].get("cuont"), request["exactly"]["count"]) == ("r", None, 1)


def test_names_of_maps_and_opaque_parameters_are_no_fields():
    api = ApiServer()
    made = claim(labels={"any": "1"}, annotations={"thing": "2"})
    opaque = {"driver": "a.example.com", "parameters": {"any": {"thing": 1}}}
    made["spec"]["devices"]["config"] = [{"opaque": opaque}]
    found = ok(api, "POST", CLAIMS, made, fieldValidation="Strict")
    assert found["spec"]["devices"]["config"] == made["spec"]["devices"]["config"]


@pytest.mark.parametrize(
    ("path", "body", "where"),
    [
        ("/api/v1/nodes", {"spec": ["a"]}, "spec"),
        ("/api/v1/nodes", {"status": {"conditions": [["a"]]}}, "status.conditions[0]"),
        ("/api/v1/nodes", {"metadata": {"labels": {"a": {}}}}, "metadata.labels.a"),
        ("/api/v1/nodes", {"spec": {"unschedulable": "true"}}, "spec.unschedulable"),
        ("/api/v1/namespaces/default/services", {"spec": {"selector": "a"}}, "spec.selector"),
        (
            "/api/v1/namespaces/default/services",
            {"spec": {"healthCheckNodePort": "1"}},
            "healthCheckNodePort",
        ),
        ("/api/v1/namespaces/default/services", {"spec": {"ports": [{"port": {}}]}}, "spec.ports[0].port"),
    ],
)
def test_a_value_of_another_shape_than_its_field_is_refused(path, body, where):
    api = ApiServer()
    code, found = call(api, "POST", path, {**body, "metadata": {"name": "a", **body.get("metadata", {})}})
    assert (code, found["reason"]) == (400, "BadRequest")
    assert f"{where}: expected a" in found["message"]
    ok(api, "POST", path, {"metadata": {"name": "a"}, "spec": {"ports": [{"port": 1}]}})
    code, found = call(api, "PATCH", f"{path}/a", body, media=MERGE)
    assert (code, f"{where}: expected a" in found["message"]) == (422, True)


def test_null_among_texts_is_an_empty_text():
    api, path = ApiServer(), "/api/v1/namespaces/default/configmaps"
    made = ok(api, "POST", path, {"metadata": {"name": "a", "labels": {"l": None}}, "data": {"k": None}})
    assert (made["data"], made["metadata"]["labels"]) == ({"k": ""}, {"l": ""})
    assert "data" not in ok(api, "POST", path, {"metadata": {"name": "b"}, "data": None})


def test_null_among_quantities_is_zero():
    body = {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": None, "memory": "1Gi"}}}
    made = ok(ApiServer(), "POST", "/api/v1/nodes", body)
    assert made["status"]["allocatable"] == {"cpu": "0", "memory": "1Gi"}


@pytest.mark.parametrize("moment", ["x", 5, ""])
def test_times_that_are_none_are_refused(moment):
    api, path = ApiServer(), "/api/v1/namespaces/default/configmaps"
    body = {"metadata": {"name": "a", "creationTimestamp": moment}}
    assert refused(api, "POST", path, body) == (400, "BadRequest")
    ok(api, "POST", path, {"metadata": {"name": "a", "creationTimestamp": None}})
    assert refused(api, "PATCH", f"{path}/a", body, media=MERGE) == (422, "Invalid")


@pytest.mark.parametrize("media", ["application/octet-stream", "*/*", "text/plain", "application/yaml"])
@pytest.mark.parametrize(("method", "path"), [("POST", CLAIMS), ("PUT", f"{CLAIMS}/c"), ("DELETE", CLAIMS)])
def test_bodies_of_unknown_types_are_refused(media, method, path):
    answer = refused(ApiServer(), method, path, claim(), media=media)
    assert answer == (415, "UnsupportedMediaType")


@pytest.mark.parametrize(
    ("method", "options", "field", "reason"),
    [
        ("POST", {"fieldValidation": "strict"}, "fieldValidation", "FieldValueNotSupported"),
        ("POST", {"fieldManager": "a" * 129}, "fieldManager", "FieldValueTooLong"),
        ("POST", {"fieldManager": "a\n"}, "fieldManager", "FieldValueInvalid"),
        ("POST", {"dryRun": "Some"}, "dryRun", "FieldValueNotSupported"),
        ("PATCH", {"force": "true"}, "force", "FieldValueForbidden"),
        ("APPLY", {}, "fieldManager", "FieldValueRequired"),
    ],
)
def test_options_that_an_api_server_refuses(method, options, field, reason):
    api = ApiServer()
    path = PODS if method == "POST" else f"{PODS}/p"
    media = {"APPLY": APPLY, "PATCH": MERGE}.get(method, "application/json")
    verb = "PATCH" if method == "APPLY" else method
    assert causes(api, verb, path, pod(), media=media, **options) == [(field, reason)]


@pytest.mark.parametrize("in_body", [True, False])
@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"propagationPolicy": "Later"}, "FieldValueNotSupported"),
        ({"propagationPolicy": "Orphan", "orphanDependents": True}, "FieldValueInvalid"),
    ],
)
def test_options_of_a_delete_that_an_api_server_refuses(options, reason, in_body):
    api = ApiServer()
    ok(api, "POST", CLAIMS, claim())
    query = {} if in_body else {key: str(value) for key, value in options.items()}
    found = causes(api, "DELETE", f"{CLAIMS}/c", options if in_body else None, **query)
    assert found == [("propagationPolicy", reason)]
    ok(api, "GET", f"{CLAIMS}/c")
