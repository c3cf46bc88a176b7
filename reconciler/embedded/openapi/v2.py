"""OpenAPI v2: one document for all kinds, made from the schemas of v3.

kubectl requests it, always as protobuf, to validate `kind: List` and for `explain --output
plaintext-openapiv2`.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from reconciler.api.validation.encoding import encode
from reconciler.api.validation.kinds import Object
from reconciler.embedded.openapi.models import REF
from reconciler.embedded.openapi.paths import Operation, operations
from reconciler.embedded.openapi.protobuf import encode_document
from reconciler.embedded.openapi.schemas import ANY_FIELDS, Served, definitions
from reconciler.embedded.openapi.v3 import INFO

_VALIDATION = {"name": "fieldValidation", "in": "query", "type": "string"}


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
        paths.setdefault(operation.path, {})[operation.method] = _operation(operation)
    schemas = {name: _schema(schema) for name, schema in definitions(served).items()}
    return {"swagger": "2.0", "info": INFO, "paths": paths, "definitions": schemas}


def _operation(operation: Operation) -> Object:
    found = {**operation.notes, "responses": {"200": {"description": "OK"}}}
    if operation.media:
        found |= {"parameters": [_VALIDATION], "consumes": list(operation.media)}
    return found


def _schema(schema: Mapping[str, Any]) -> Object:
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
                found |= _schema(only)
            case "properties", dict():
                found[key] = {name: _schema(inner) for name, inner in value.items()}
            case (("items" | "additionalProperties"), dict()):
                found[key] = _schema(value)
            case _:
                found[key] = value
    return found
