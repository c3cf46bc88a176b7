"""OpenAPI v3, one document for each group and version, and v2, one for all kinds, made from the same
schemas.

kubectl requests v2, always as protobuf, to validate `kind: List` and for `explain --output plaintext-
openapiv2`. Source of the numbers of protobuf: gnostic's openapiv2/OpenAPIv2.proto.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from reconciler.api.validation.bodies import encode
from reconciler.api.validation.kinds import GroupVersion, Object
from reconciler.embedded.schemas import ANY_FIELDS, GVK, REF, Served, definitions, group_version_kind

_PATCHES = ("application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml")
_STRATEGIC = "application/strategic-merge-patch+json"


class Operation(NamedTuple):
    """One method of one path."""

    path: str
    method: str
    media: tuple[str, ...]
    """The media types of its body; empty if it has none."""
    notes: Object
    """Extensions: what it does, with which kind."""


def root(version: GroupVersion) -> str:
    """The path of a group and version, without the first slash."""
    return f"apis/{version}" if version.group else f"api/{version.version}"


def operations(served: Iterable[Served]) -> Iterator[Operation]:
    """The operations on collections and objects."""
    for version, kind in served:
        where = "namespaces/{namespace}/" if kind.namespaced else ""
        collection = f"/{root(version)}/{where}{kind.plural}"
        one = f"{collection}/{{name}}"
        patches = _PATCHES if version.is_custom else (*_PATCHES, _STRATEGIC)
        gvk = group_version_kind(version, kind)
        for path, method, action, media in (
            (collection, "get", "list", ()),
            (collection, "post", "post", ("*/*",)),
            (one, "get", "get", ()),
            (one, "put", "put", ("*/*",)),
            (one, "patch", "patch", patches),
        ):
            yield Operation(path, method, media, {"x-kubernetes-action": action, GVK: gvk})


INFO = {"title": "embedded API server", "version": "v1.36.2"}
_VALIDATION = {"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}
"""With it, kubectl leaves the validation of single objects to the server."""


@lru_cache(maxsize=64)
def v3_document(served: tuple[Served, ...]) -> bytes:
    """The document of the kinds of one group and version."""
    paths: dict[str, Object] = {}
    for operation in operations(served):
        paths.setdefault(operation.path, {})[operation.method] = _v3_operation(operation)
    return encode(
        {
            "openapi": "3.0.0",
            "info": INFO,
            "paths": paths,
            "components": {"schemas": definitions(served)},
        }
    )


def _v3_operation(operation: Operation) -> Object:
    found = {**operation.notes, "responses": {"200": {"description": "OK"}}}
    if operation.media:
        content = {media: {"schema": {"type": "object"}} for media in operation.media}
        found |= {"parameters": [_VALIDATION], "requestBody": {"content": content}}
    return found


MEDIA = (
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
)
"""The names of the format; kubectl uses the first."""
_BYTES = 2
_METHODS = {"get": 2, "put": 3, "post": 4, "delete": 5, "patch": 8}


def encode_document(document: Object) -> bytes:
    """The message Document, with the members that this package writes."""
    info = document["info"]
    paths = (_part(2, _named(path, _path(item))) for path, item in document["paths"].items())
    return b"".join(
        (
            _text(1, document["swagger"]),
            _part(2, _text(1, info["title"]) + _text(2, info["version"])),
            _part(8, b"".join(paths)),
            _part(9, _schemas(document["definitions"])),
        )
    )


def _path(item: Object) -> bytes:
    return b"".join(_part(_METHODS[method], _operation(found)) for method, found in item.items())


def _operation(operation: Object) -> bytes:
    parameters = (
        _part(8, _part(1, _part(2, _part(3, _query(one))))) for one in operation.get("parameters", ())
    )
    answers = (
        _part(1, _named(code, _part(1, _text(1, answer["description"]))))
        for code, answer in operation["responses"].items()
    )
    media = _texts(7, operation.get("consumes", ()))
    return media + b"".join(parameters) + _part(9, b"".join(answers)) + _extensions(13, operation)


def _query(parameter: Object) -> bytes:
    return _text(2, parameter["in"]) + _text(4, parameter["name"]) + _text(6, parameter["type"])


def _schemas(schemas: Mapping[str, Object]) -> bytes:
    return b"".join(_part(1, _named(name, _schema(schema))) for name, schema in schemas.items())


def _schema(schema: Object) -> bytes:
    found = [
        *(_text(number, schema[key]) for key, number in _TEXTS.items() if key in schema),
        _texts(19, schema.get("required", ())),
    ]
    if "additionalProperties" in schema:
        found.append(_part(21, _part(1, _schema(schema["additionalProperties"]))))
    if "type" in schema:
        found.append(_part(22, _text(1, schema["type"])))
    if "items" in schema:
        found.append(_part(23, _part(1, _schema(schema["items"]))))
    if "properties" in schema:
        found.append(_part(25, _schemas(schema["properties"])))
    return b"".join(found) + _extensions(31, schema)


_TEXTS = {"$ref": 1, "format": 2, "description": 4}


def _extensions(number: int, holder: Object) -> bytes:
    """The members whose names start with x-, their values as YAML, of which JSON is a part."""
    return b"".join(
        _part(number, _named(name, _part(2, encode(value))))
        for name, value in holder.items()
        if name.startswith("x-")
    )


def _named(name: str, value: bytes) -> bytes:
    """An entry of a map: all of them have these numbers."""
    return _text(1, name) + _part(2, value)


def _texts(number: int, values: Iterable[str]) -> bytes:
    return b"".join(_text(number, value) for value in values)


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


_V2_VALIDATION = {"name": "fieldValidation", "in": "query", "type": "string"}


@lru_cache(maxsize=4)
def v2_document(served: tuple[Served, ...]) -> bytes:
    """The document as JSON."""
    return encode(_document(served))


@lru_cache(maxsize=4)
def v2_protobuf(served: tuple[Served, ...]) -> bytes:
    """The document as protobuf."""
    return encode_document(_document(served))


def _document(served: tuple[Served, ...]) -> Object:
    paths: dict[str, Object] = {}
    for operation in operations(served):
        paths.setdefault(operation.path, {})[operation.method] = _v2_operation(operation)
    schemas = {name: _v2_schema(schema) for name, schema in definitions(served).items()}
    return {"swagger": "2.0", "info": INFO, "paths": paths, "definitions": schemas}


def _v2_operation(operation: Operation) -> Object:
    found = {**operation.notes, "responses": {"200": {"description": "OK"}}}
    if operation.media:
        found |= {"parameters": [_V2_VALIDATION], "consumes": list(operation.media)}
    return found


def _v2_schema(schema: Mapping[str, Any]) -> Object:
    """A schema of v3 as one of v2."""
    # v2 has no word for further fields beside known ones: without a type, kubectl accepts everything.
    dropped = ("type", "properties") if ANY_FIELDS in schema else ()
    found: Object = {}
    for key, value in schema.items():
        match key, value:
            case _ if key in dropped:
                pass
            case "$ref", str():
                found[key] = "#/definitions/" + value.removeprefix(REF)
            case "allOf", [only]:
                found |= _v2_schema(only)
            case "properties", dict():
                found[key] = {name: _v2_schema(inner) for name, inner in value.items()}
            case (("items" | "additionalProperties"), dict()):
                found[key] = _v2_schema(value)
            case _:
                found[key] = value
    return found
