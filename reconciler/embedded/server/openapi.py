"""Minimal OpenAPI v3 for `kubectl apply`: it declares that patches accept `fieldValidation`.

With that, kubectl leaves validation to the server and requests no schema. Schemas are not published.
"""

from reconciler.api.validation.kinds import GroupVersion, Object, ServedKind

_VALIDATION = {"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}
_PATCHES = ("application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml")


def document(root: str, served: GroupVersion, kinds: list[ServedKind]) -> Object:
    """The paths of one group and version."""
    paths = {}
    for kind in kinds:
        collection = (
            f"{root}/namespaces/{{namespace}}/{kind.plural}" if kind.namespaced else f"{root}/{kind.plural}"
        )
        gvk = {"group": served.group, "version": served.version, "kind": kind.kind}
        paths[collection] = {"post": _operation("post", gvk)}
        paths[f"{collection}/{{name}}"] = {"patch": _patch(gvk), "put": _operation("put", gvk)}
    return {
        "openapi": "3.0.0",
        "info": {"title": "embedded API server", "version": "v1.36.2"},
        "paths": paths,
        "components": {"schemas": {}},
    }


def _operation(action: str, gvk: Object) -> Object:
    return {
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": gvk,
        "parameters": [_VALIDATION],
        "responses": {"200": {"description": "OK"}},
    }


def _patch(gvk: Object) -> Object:
    content: Object = {media: {"schema": {"type": "object"}} for media in _PATCHES}
    return {**_operation("patch", gvk), "requestBody": {"content": content}}
