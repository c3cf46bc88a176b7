"""JSON patch (RFC 6902), JSON merge patch (RFC 7386), strategic merge patch and Bindings, as functions of
an object.
"""

from collections.abc import Callable
from typing import Any

from reconciler.api.validation.bodies import (
    Refusal,
    bad_request,
    copy,
    decode_json,
    invalid,
    patch_failed,
    same,
    unsupported_media_type,
)
from reconciler.api.validation.fields import Cause
from reconciler.api.validation.kinds import Object, ServedKind, strategic_merge

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


JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"


def patcher(kind: ServedKind, media: str, patch: bytes) -> Callable[[Object], Any]:
    """A function that applies a patch. Server-side apply is done elsewhere."""
    if media not in (JSON_PATCH, MERGE_PATCH) and (media != STRATEGIC or kind.stored.is_custom):
        raise unsupported_media_type()
    wanted = decode_json(patch)
    if media == JSON_PATCH:
        return lambda shown: apply_json_patch(shown, wanted)
    if media == MERGE_PATCH:
        return lambda shown: merge(shown, _object(wanted))
    return lambda shown: strategic_merge(shown, _object(wanted), kind.strategic)


def keeping_uid(kind: ServedKind, change: Callable[[Object], Any]) -> Callable[[Object], Any]:
    """A patch that may name the object's uid, and not change it. It raises a 422."""

    def checked(shown: Object) -> Any:
        new, metadata = change(shown), shown["metadata"]
        wanted = new.get("metadata") if isinstance(new, dict) else None
        if isinstance(wanted, dict) and wanted.get("uid", metadata["uid"]) != metadata["uid"]:
            why = f'Invalid value: "{wanted["uid"]}": field is immutable'
            cause = Cause("FieldValueInvalid", why, "metadata.uid")
            raise invalid(kind.kind, kind.group, metadata["name"], [cause])
        return new

    return checked


def bind(binding: Any, moment: str) -> Callable[[Object], Object]:
    """A function that applies a Binding to a pod: it sets the node, once, and the condition of that."""
    target = _object(binding).get("target")
    node = target.get("name") if isinstance(target, dict) else None
    if not isinstance(node, str) or not node:
        raise bad_request("a Binding must name its target")

    def bound(pod: Object) -> Object:
        name = pod["metadata"]["name"]
        if pod["spec"].get("nodeName"):
            why = f"pod {name} is already assigned to node {pod['spec']['nodeName']!r}"
            raise Refusal(409, "Conflict", f'Operation cannot be fulfilled on pods/binding "{name}": {why}')
        if pod["spec"].get("schedulingGates"):
            why = f"pod {name} has non-empty .spec.schedulingGates"
            raise Refusal(409, "Conflict", f'Operation cannot be fulfilled on pods/binding "{name}": {why}')
        status = pod.get("status", {})
        others = [one for one in status.get("conditions", ()) if one.get("type") != "PodScheduled"]
        scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": moment}
        return {
            **pod,
            "spec": {**pod["spec"], "nodeName": node},
            "status": {**status, "conditions": [*others, scheduled]},
        }

    return bound


def _object(value: Any) -> Object:
    if not isinstance(value, dict):
        raise bad_request("expected an object")
    return value
