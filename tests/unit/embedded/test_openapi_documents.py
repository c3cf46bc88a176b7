"""The OpenAPI documents, and in which formats they are served."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from reconciler.api.validation.kinds import GroupVersion, ServedKind
from reconciler.embedded import ApiServer, Request, Response
from tests.tools.driving import call, ok, refused

_TEXTS = {1: "$ref", 2: "format", 4: "description"}


def read_document(data: bytes) -> dict[str, Any]:
    """The document as JSON would have it."""
    found: dict[str, Any] = {"definitions": {}}
    for number, part in _parts(data):
        match number:
            case 1:
                found["swagger"] = part.decode()
            case 2:
                info = dict(_parts(part))
                found["info"] = {"title": info[1].decode(), "version": info[2].decode()}
            case 8:
                assert part == b""  # without paths
            case 9:
                found["definitions"] = {name: _schema(item) for name, item in _entries(part, 1)}
            case _:
                raise AssertionError(f"unexpected member {number} of the document")
    return found


def _schema(data: bytes) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for number, part in _parts(data):
        match number:
            case 1 | 2 | 4:
                found[_TEXTS[number]] = part.decode()
            case 19:
                found.setdefault("required", []).append(part.decode())
            case 21:
                found["additionalProperties"] = _schema(_only(part, 1))
            case 22:
                found["type"] = _only(part, 1).decode()
            case 23:
                found["items"] = _schema(_only(part, 1))
            case 25:
                found["properties"] = {name: _schema(item) for name, item in _entries(part, 1)}
            case 31:
                found |= _extension(part)
            case _:
                raise AssertionError(f"unexpected member {number} of a schema")
    return found


def _extension(data: bytes) -> dict[str, Any]:
    entry = dict(_parts(data))
    return {entry[1].decode(): json.loads(_only(entry[2], 2))}


def _entries(data: bytes, number: int) -> Iterator[tuple[str, bytes]]:
    for at, part in _parts(data):
        assert at == number
        entry = dict(_parts(part))
        yield entry[1].decode(), entry.get(2, b"")


def _only(data: bytes, number: int) -> bytes:
    ((at, part),) = _parts(data)
    assert at == number
    return part


def _parts(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(data):
        key, at = _number(data, at)
        assert key & 7 == 2
        size, at = _number(data, at)
        yield key >> 3, data[at : at + size]
        at += size
    assert at == len(data)


def _number(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 0x80:
            return value, at


PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
GVK = "x-kubernetes-group-version-kind"


@pytest.fixture(scope="module")
def api():
    return ApiServer()


def v3(api):
    """Every document of v3, by group and version."""
    index = ok(api, "GET", "/openapi/v3")["paths"]
    return {root: ok(api, "GET", entry["serverRelativeURL"]) for root, entry in index.items()}


def in_protobuf(api, accept=PROTOBUF):
    answer = api.handle(Request("GET", "/openapi/v2", {}, {"Accept": accept}))
    assert isinstance(answer, Response)
    assert answer.status == 200
    return answer


def v2(api):
    return read_document(in_protobuf(api).body)


def references(value):
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        value = list(value.values())
    for inner in value if isinstance(value, list) else ():
        yield from references(inner)


def test_v2_is_served_in_protobuf_by_both_names_of_the_format(api):
    """Every kubectl requests protobuf, and does not read JSON."""
    found = v2(api)
    assert (found["swagger"], found["info"]["version"]) == ("2.0", "unversioned")
    newer = in_protobuf(api, "application/com.github.proto-openapi.spec.v2.v1.0+protobuf, */*")
    assert newer.body == in_protobuf(api).body
    assert newer.content_type == "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
    assert refused(api, "GET", "/openapi/v2", accept="application/json") == (406, "NotAcceptable")


@pytest.mark.parametrize("path", ["/openapi/v2", "/openapi/v3", "/openapi/v3/api/v1"])
def test_other_formats_are_refused(api, path):
    accept = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"
    assert refused(api, "GET", path, accept=accept) == (406, "NotAcceptable")


def test_every_kind_has_one_schema_in_each_document(api):
    """A kubectl refuses an object in a List whose kind has no schema in v2."""
    described = [
        tuple(one.values()) for schema in v2(api)["definitions"].values() for one in schema.get(GVK, ())
    ]
    in_v3 = [
        tuple(one.values())
        for document in v3(api).values()
        for schema in document["components"]["schemas"].values()
        for one in schema.get(GVK, ())
    ]
    served = [
        (version.group, version.version, kind.kind)
        for store in api.store
        for kind in [store.kind]
        for version in kind.served
        if kind.is_in(37, version)
    ]
    assert sorted(described) == sorted(in_v3) == sorted(served)


def test_every_reference_leads_to_a_schema(api):
    """A kubectl refuses a whole document with one reference into nothing."""
    two = v2(api)
    assert set(references(two)) <= {f"#/definitions/{name}" for name in two["definitions"]}
    for document in v3(api).values():
        known = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
        assert set(references(document)) <= known


def test_v2_and_v3_describe_the_same_fields(api):
    two = v2(api)["definitions"]
    for document in v3(api).values():
        for name, schema in document["components"]["schemas"].items():
            if "x-kubernetes-preserve-unknown-fields" in schema:
                continue
            assert set(two[name]["properties"]) == set(schema["properties"]), name
            assert two[name].get("required") == schema.get("required"), name


def test_v3_says_which_patches_exist(api):
    """A kubectl makes a strategic merge patch for kinds that take one, and a merge patch for others."""

    def patch(document: str, path: str) -> dict[str, Any]:
        return dict(v3(api)[document]["paths"][path]["patch"])

    strategic = "application/strategic-merge-patch+json"
    pods = patch("api/v1", "/api/v1/namespaces/{namespace}/pods/{name}")
    assert strategic in pods["requestBody"]["content"]
    assert [one["name"] for one in pods["parameters"]] == ["fieldValidation"]
    group = "apis/scheduling.koordinator.sh/v1alpha1"
    assert strategic not in patch(group, f"/{group}/devices/{{name}}")["requestBody"]["content"]


def test_a_kind_of_kubernetes_needs_a_declaration_and_nothing_else():
    """Its schema, its columns and its patches follow."""
    kind = ServedKind(
        "RuntimeClass", "runtimeclasses", "runtimeclass", (GroupVersion("node.k8s.io", "v1"),),
        namespaced=False, description="How containers run.",
    )  # fmt: skip
    api = ApiServer([kind])
    (schema,) = (
        schema
        for schema in ok(api, "GET", "/openapi/v3/apis/node.k8s.io/v1")["components"]["schemas"].values()
        if GVK in schema
    )
    assert (schema["description"], schema["required"]) == ("How containers run.", ["handler"])
    assert schema["properties"]["handler"]["type"] == "string"
    path = "/apis/node.k8s.io/v1/runtimeclasses"
    ok(api, "POST", path, {"metadata": {"name": "s", "finalizers": ["a.b/c"]}, "handler": "x"})
    patch = {"metadata": {"finalizers": ["d.e/f"]}}
    patched = ok(api, "PATCH", f"{path}/s", patch, media="application/strategic-merge-patch+json")
    assert patched["metadata"]["finalizers"] == ["a.b/c", "d.e/f"]


def test_a_custom_resource_may_have_every_field():
    """Without a published schema no field is refused; a type in v2 would refuse all unknown ones."""
    kind = ServedKind("Thing", "things", "thing", (GroupVersion("example.com", "v1"),))
    api = ApiServer([kind])
    two = v2(api)["definitions"]["Thing.v1.example.com"]
    assert "type" not in two
    assert "properties" not in two
    three = ok(api, "GET", "/openapi/v3/apis/example.com/v1")["components"]["schemas"]
    assert set(three["Thing.v1.example.com"]["properties"]) == {"apiVersion", "kind", "metadata"}


def test_a_new_version_of_a_kind_takes_the_schema_of_the_same_shape(api):
    """Kubernetes 1.36 has no DeviceTaintRule in v1; its other versions have the same fields."""
    (schema,) = (
        schema
        for schema in v2(api)["definitions"].values()
        if {"group": "resource.k8s.io", "version": "v1", "kind": "DeviceTaintRule"} in schema.get(GVK, ())
    )
    assert {"spec", "status"} <= schema["properties"].keys()


def test_documents_below_openapi_are_only_read(api):
    assert call(api, "POST", "/openapi/v3", {})[0] == 405
