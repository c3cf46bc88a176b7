"""JSON patch (RFC 6902) and JSON merge patch (RFC 7386). The input document is never modified."""

from typing import Any

from reconciler.api.validation.encoding import copy, same
from reconciler.api.validation.status import Refusal, bad_request, patch_failed

MAX_OPERATIONS = 10_000


def merge(target: Any, patch: Any) -> Any:
    """Apply a merge patch: null removes, objects merge, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


def apply_json_patch(document: Any, operations: Any) -> Any:
    """Apply the operations in order. Raises 400 for a malformed patch, 422 for one that does not fit."""
    if not isinstance(operations, list):
        raise bad_request("a JSON patch is an array of operations")
    if len(operations) > MAX_OPERATIONS:
        raise Refusal(413, "RequestEntityTooLarge", f"the patch may have at most {MAX_OPERATIONS} operations")
    result = copy(document)
    for operation in operations:
        if not isinstance(operation, dict) or not isinstance(operation.get("path"), str):
            raise bad_request("an operation of a JSON patch is an object with a path")
        result = _apply(result, operation)
    return result


def _apply(document: Any, operation: dict[str, Any]) -> Any:
    path = _pointer(operation["path"])
    match operation.get("op"):
        case "add":
            return _add(document, path, _value(operation))
        case "remove":
            return _remove(document, path)
        case "replace":
            _get(document, path)
            if not path:
                return _value(operation)
            parent = _get(document, path[:-1])
            parent[_index(parent, path[-1]) if isinstance(parent, list) else path[-1]] = _value(operation)
            return document
        case "test":
            if not same(_get(document, path), _value(operation)):
                raise patch_failed(f"testing value at {operation['path']} failed")
            return document
        case "copy":
            return _add(document, path, copy(_get(document, _source(operation))))
        case "move":
            source = _source(operation)
            value = _get(document, source)
            return _add(_remove(document, source), path, value)
        case other:
            raise bad_request(f"unknown operation {other!r} in a JSON patch")


def _value(operation: dict[str, Any]) -> Any:
    if "value" not in operation:
        raise bad_request("an operation of the JSON patch has no value")
    return copy(operation["value"])


def _source(operation: dict[str, Any]) -> list[str]:
    if not isinstance(operation.get("from"), str):
        raise bad_request("an operation of the JSON patch has no from")
    return _pointer(operation["from"])


def _pointer(text: str) -> list[str]:
    if text and not text.startswith("/"):
        raise bad_request(f"{text!r} is not a JSON pointer")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _get(document: Any, path: list[str]) -> Any:
    for part in path:
        if isinstance(document, list):
            document = document[_index(document, part)]
        elif isinstance(document, dict) and part in document:
            document = document[part]
        else:
            raise patch_failed(f"{'/'.join(path)} does not exist")
    return document


def _index(items: list[Any], part: str, *, end: int = 0) -> int:
    if not part.isdecimal() or int(part) >= len(items) + end:
        raise patch_failed(f"{part!r} is not an index into a list of {len(items)}")
    return int(part)


def _add(document: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent = _get(document, path[:-1])
    if isinstance(parent, list):
        parent.insert(len(parent) if path[-1] == "-" else _index(parent, path[-1], end=1), value)
    elif isinstance(parent, dict):
        parent[path[-1]] = value
    else:
        raise patch_failed(f"{'/'.join(path[:-1])} is not an object or array")
    return document


def _remove(document: Any, path: list[str]) -> Any:
    _get(document, path)
    if not path:
        return {}
    parent = _get(document, path[:-1])
    if isinstance(parent, list):
        del parent[_index(parent, path[-1])]
    else:
        del parent[path[-1]]
    return document
