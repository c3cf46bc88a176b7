"""OpenAPI v3, one document for each group and version, and v2, one for all kinds, made from the same
schemas.

kubectl requests v2 in protobuf and in no other form, once, to validate `kind: List` and for `explain --output
plaintext-openapiv2`. Source of the numbers of protobuf: gnostic's openapiv2/OpenAPIv2.proto.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from reconciler.api.validation.bodies import encode
from reconciler.api.validation.kinds import GroupVersion, Object
from reconciler.embedded.schemas import ANY_FIELDS, GVK, REF, Served, definitions, group_version_kind

_PATCHES = ("application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml")
_STRATEGIC = "application/strategic-merge-patch+json"


def root(version: GroupVersion) -> str:
    """The path of a group and version, without the first slash."""
    return f"apis/{version}" if version.group else f"api/{version.version}"


INFO = {"title": "embedded API server", "version": "unversioned"}
_VALIDATION = {"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}
"""With it, kubectl leaves the validation of single objects to the server."""


@lru_cache(maxsize=64)
def v3_document(served: tuple[Served, ...]) -> bytes:
    """The document of the kinds of one group and version, with what kubectl reads of operations."""
    paths: dict[str, Object] = {}
    for version, kind in served:
        where = "namespaces/{namespace}/" if kind.namespaced else ""
        collection = f"/{root(version)}/{where}{kind.plural}"
        patches = _PATCHES if version.is_custom else (*_PATCHES, _STRATEGIC)
        gvk = group_version_kind(version, kind)
        paths[collection] = {"get": _operation("list", gvk), "post": _operation("post", gvk, "*/*")}
        paths[f"{collection}/{{name}}"] = {
            "get": _operation("get", gvk),
            "put": _operation("put", gvk, "*/*"),
            "patch": _operation("patch", gvk, *patches),
        }
    schemas = {"schemas": definitions(served)}
    return encode({"openapi": "3.0.0", "info": INFO, "paths": paths, "components": schemas})


def _operation(action: str, gvk: Object, *media: str) -> Object:
    """What it does, with which kind, and the media types of its body."""
    notes = {"x-kubernetes-action": action, GVK: gvk, "responses": {"200": {"description": "OK"}}}
    if not media:
        return notes
    content = {name: {"schema": {"type": "object"}} for name in media}
    return {**notes, "parameters": [_VALIDATION], "requestBody": {"content": content}}


# OpenAPI v2, as protobuf.

MEDIA = (
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
)
"""The names of the format; kubectl uses the first."""
_BYTES = 2
_TEXTS = {"format": 2, "description": 4}


@lru_cache(maxsize=4)
def v2_document(served: tuple[Served, ...]) -> bytes:
    """The schemas of all kinds. Its paths are empty: kubectl reads operations from v3."""
    info = _part(2, _text(1, INFO["title"]) + _text(2, INFO["version"]))
    return _text(1, "2.0") + info + _part(8, b"") + _part(9, _schemas(definitions(served)))


def _schemas(schemas: Mapping[str, Object]) -> bytes:
    return b"".join(_part(1, _named(name, _schema(schema))) for name, schema in schemas.items())


def _schema(schema: Object) -> bytes:
    """A schema of v3 as one of v2."""
    found = [_text(number, schema[key]) for key, number in _TEXTS.items() if key in schema]
    found += [_text(19, name) for name in schema.get("required", ())]
    (reference,) = schema.get("allOf", ({},))
    if name := {**reference, **schema}.get("$ref"):
        found.append(_text(1, "#/definitions/" + name.removeprefix(REF)))
    if "additionalProperties" in schema:
        found.append(_part(21, _part(1, _schema(schema["additionalProperties"]))))
    # v2 has no word for further fields beside known ones: without a type, kubectl accepts everything.
    if "type" in schema and ANY_FIELDS not in schema:
        found.append(_part(22, _text(1, schema["type"])))
    if "items" in schema:
        found.append(_part(23, _part(1, _schema(schema["items"]))))
    if "properties" in schema and ANY_FIELDS not in schema:
        found.append(_part(25, _schemas(schema["properties"])))
    # Extensions: their values are YAML, of which JSON is a part.
    found += [_part(31, _named(key, _part(2, encode(schema[key])))) for key in schema if key.startswith("x-")]
    return b"".join(found)


def _named(name: str, value: bytes) -> bytes:
    """An entry of a map: all of them have these numbers."""
    return _text(1, name) + _part(2, value)


def _text(number: int, value: Any) -> bytes:
    return _part(number, str(value).encode())


def _part(number: int, content: bytes) -> bytes:
    """A field of bytes: a text or a message."""
    return _varint(number << 3 | _BYTES) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
