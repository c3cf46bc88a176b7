"""Encode an OpenAPI v2 document as protobuf. Source of the numbers: gnostic's openapiv2/OpenAPIv2.proto."""

from collections.abc import Iterable, Mapping
from typing import Any

from reconciler.api.validation.encoding import encode
from reconciler.api.validation.kinds import Object

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
