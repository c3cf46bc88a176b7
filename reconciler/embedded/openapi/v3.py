"""OpenAPI v3: one document for each group and version, as JSON."""

from functools import lru_cache

from reconciler.api.validation.encoding import encode
from reconciler.api.validation.kinds import Object
from reconciler.embedded.openapi.paths import Operation, operations
from reconciler.embedded.openapi.schemas import Served, definitions

INFO = {"title": "embedded API server", "version": "v1.36.2"}
_VALIDATION = {"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}
"""With it, kubectl leaves the validation of single objects to the server."""


@lru_cache(maxsize=64)
def v3_document(served: tuple[Served, ...]) -> bytes:
    """The document of the kinds of one group and version."""
    paths: dict[str, Object] = {}
    for operation in operations(served):
        paths.setdefault(operation.path, {})[operation.method] = _operation(operation)
    return encode(
        {
            "openapi": "3.0.0",
            "info": INFO,
            "paths": paths,
            "components": {"schemas": definitions(served)},
        }
    )


def _operation(operation: Operation) -> Object:
    found = {**operation.notes, "responses": {"200": {"description": "OK"}}}
    if operation.media:
        content = {media: {"schema": {"type": "object"}} for media in operation.media}
        found |= {"parameters": [_VALIDATION], "requestBody": {"content": content}}
    return found
