"""The bodies of requests, JSON or protobuf, and the patches that they carry, as values."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from reconciler.api.validation import bodies
from reconciler.api.validation.fields import Cause
from reconciler.api.validation.kinds import Object, ServedKind, strategic_merge
from reconciler.api.versions.shapes import mapping
from reconciler.embedded.routing import Request

MEDIA = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class _Member(NamedTuple):
    """A field: its name and type."""

    name: str
    of: Any = "text"
    """Text, number, flag, map, texts, either (an int or a string), the members of a message, or in a tuple
    those of each message of a list."""


_TYPE_META = {1: _Member("apiVersion"), 2: _Member("kind")}
_METADATA = {
    1: _Member("name"),
    2: _Member("generateName"),
    3: _Member("namespace"),
    11: _Member("labels", "map"),
    12: _Member("annotations", "map"),
    14: _Member("finalizers", "texts"),
}
_RESOURCE = dict(
    enumerate(map(_Member, ("namespace", "verb", "group", "version", "resource", "subresource", "name")), 1)
)
_PORT = {
    1: _Member("name"),
    2: _Member("protocol"),
    3: _Member("port", "number"),
    4: _Member("targetPort", "either"),
    5: _Member("nodePort", "number"),
}
_SERVICE = {
    1: _Member("ports", (_PORT,)),
    2: _Member("selector", "map"),
    3: _Member("clusterIP"),
    4: _Member("type"),
    10: _Member("externalName"),
}
_EXPRESSION = {1: _Member("key"), 2: _Member("operator"), 3: _Member("values", "texts")}
_LABELS = {1: _Member("matchLabels", "map"), 2: _Member("matchExpressions", (_EXPRESSION,))}
_BUDGET = {
    1: _Member("minAvailable", "either"),
    2: _Member("selector", _LABELS),
    3: _Member("maxUnavailable", "either"),
    4: _Member("unhealthyPodEvictionPolicy"),
}
_PATH = {1: _Member("path"), 2: _Member("verb")}
_DELETE_OPTIONS = {
    2: _Member("preconditions", {1: _Member("uid"), 2: _Member("resourceVersion")}),
    5: _Member("dryRun", "texts"),
}
_KINDS: Mapping[tuple[str, str], Mapping[int, _Member]] = {
    ("v1", "Namespace"): {
        1: _Member("metadata", _METADATA),
        2: _Member("spec", {1: _Member("finalizers", "texts")}),
    },
    ("v1", "ConfigMap"): {
        1: _Member("metadata", _METADATA),
        2: _Member("data", "map"),
        4: _Member("immutable", "flag"),
    },
    ("v1", "Service"): {1: _Member("metadata", _METADATA), 2: _Member("spec", _SERVICE)},
    ("policy/v1", "PodDisruptionBudget"): {1: _Member("metadata", _METADATA), 2: _Member("spec", _BUDGET)},
    ("v1", "DeleteOptions"): _DELETE_OPTIONS,
    ("policy/v1", "Eviction"): {
        1: _Member("metadata", _METADATA),
        2: _Member("deleteOptions", _DELETE_OPTIONS),
    },
    ("authentication.k8s.io/v1", "SelfSubjectReview"): {},
    ("authorization.k8s.io/v1", "SelfSubjectAccessReview"): {
        2: _Member(
            "spec", {1: _Member("resourceAttributes", _RESOURCE), 2: _Member("nonResourceAttributes", _PATH)}
        )
    },
    ("authorization.k8s.io/v1", "SelfSubjectRulesReview"): {2: _Member("spec", {1: _Member("namespace")})},
}


def decode_protobuf(body: bytes) -> Object:
    """The object in a protobuf envelope. Raises a 400, or a 415 for other kinds."""
    if not body.startswith(_MAGIC):
        raise bodies.bad_request("a protobuf body must start with the Kubernetes envelope")
    try:
        envelope = dict(_fields(body[len(_MAGIC) :]))
        head = _message(envelope.get(1, b""), _TYPE_META)
        members = _KINDS.get((head.get("apiVersion", ""), head.get("kind", "")))
        if members is None:
            raise bodies.unsupported_media_type()
        return {**head, **_message(envelope.get(2, b""), members)}
    except (AttributeError, ValueError, IndexError, TypeError) as exc:
        raise bodies.bad_request(f"protobuf parse error: {exc}") from exc


def _message(data: bytes, members: Mapping[int, _Member]) -> Object:
    found: Object = {}
    for number, value in _fields(data):
        member = members.get(number)
        if member is None:
            continue
        match member.of:
            case "text":
                if value:  # unset fields are written as empty texts
                    found[member.name] = value.decode()
            case "number":
                if value:
                    found[member.name] = _whole(value)
            case "flag":
                found[member.name] = bool(value)
            case "texts":
                found.setdefault(member.name, []).append(value.decode())
            case "map":
                entry = dict(_fields(value))
                found.setdefault(member.name, {})[entry.get(1, b"").decode()] = entry.get(2, b"").decode()
            case "either":
                found[member.name] = _either(dict(_fields(value)))
            case (inner,):
                found.setdefault(member.name, []).append(_message(value, inner))
            case _:
                found[member.name] = _message(value, member.of)
    return found


def _either(fields: Mapping[int, Any]) -> int | str:
    return fields.get(3, b"").decode() if fields.get(1) else _whole(fields.get(2, 0))


def _whole(value: Any) -> int:
    if not isinstance(value, int):
        raise TypeError("expected a number, found bytes")
    return value


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Number and raw value of each field: an int for a varint, else bytes."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == _VARINT:
            value, at = _varint(data, at)
            yield key >> 3, value
            continue
        if kind == _BYTES:
            size, at = _varint(data, at)
        else:
            size = {_FIXED64: 8, _FIXED32: 4}.get(kind, -1)
        if size < 0 or at + size > len(data):
            raise ValueError(f"a field of {size} bytes at {at} of {len(data)}")
        yield key >> 3, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at
        if shift > 63:
            raise ValueError("a number of more than 64 bits")


def media_type(request: Request) -> str:
    """The media type of the body, without parameters."""
    return request.headers.get("Content-Type", "").partition(";")[0].strip()


def decode_body(request: Request) -> Any:
    """The body as a value. Raises a 400, or a 415 for unknown media types."""
    media = media_type(request)
    if media == MEDIA:
        return decode_protobuf(request.body)
    if media not in ("", "application/json"):
        raise bodies.unsupported_media_type()
    return bodies.decode_json(request.body)


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
        raise bodies.bad_request("a JSON patch is an array of operations")
    if len(operations) > MAX_OPERATIONS:
        raise bodies.Refusal(
            413, "RequestEntityTooLarge", f"the patch may have at most {MAX_OPERATIONS} operations"
        )
    result = bodies.copy(document)
    for operation in operations:
        if not isinstance(operation, dict) or not isinstance(operation.get("path"), str):
            raise bodies.bad_request("an operation of a JSON patch is an object with a path")
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
            if not path:
                return _value(operation)
            parent = _get(document, path[:-1])
            if not isinstance(parent, list):
                # Also a field that is not there, as real servers do.
                return _add(document, path, _value(operation))
            parent[_index(parent, path[-1])] = _value(operation)
            return document
        case "test":
            if not bodies.same(_get(document, path), _value(operation)):
                raise bodies.patch_failed(f"testing value at {operation['path']} failed")
            return document
        case "copy":
            return _add(document, path, bodies.copy(_get(document, _source(operation))))
        case "move":
            source = _source(operation)
            value = _get(document, source)
            return _add(_remove(document, source), path, value)
        case other:
            raise bodies.bad_request(f"unknown operation {other!r} in a JSON patch")


def _value(operation: dict[str, Any]) -> Any:
    if "value" not in operation:
        raise bodies.bad_request("an operation of the JSON patch has no value")
    return bodies.copy(operation["value"])


def _source(operation: dict[str, Any]) -> list[str]:
    if not isinstance(operation.get("from"), str):
        raise bodies.bad_request("an operation of the JSON patch has no from")
    return _pointer(operation["from"])


def _pointer(text: str) -> list[str]:
    if text and not text.startswith("/"):
        raise bodies.bad_request(f"{text!r} is not a JSON pointer")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _get(document: Any, path: list[str]) -> Any:
    for part in path:
        if isinstance(document, list):
            document = document[_index(document, part)]
        elif isinstance(document, dict) and part in document:
            document = document[part]
        else:
            raise bodies.patch_failed(f"{'/'.join(path)} does not exist")
    return document


def _index(items: list[Any], part: str, *, end: int = 0) -> int:
    if not part.isdecimal() or int(part) >= len(items) + end:
        raise bodies.patch_failed(f"{part!r} is not an index into a list of {len(items)}")
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
        raise bodies.patch_failed(f"{'/'.join(path[:-1])} is not an object or array")
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
        raise bodies.unsupported_media_type()
    wanted = bodies.decode_json(patch)
    if media == JSON_PATCH:
        return lambda shown: apply_json_patch(shown, wanted)
    if media == MERGE_PATCH:
        return lambda shown: merge(shown, _object(wanted))
    return lambda shown: strategic_merge(shown, _object(wanted), kind.strategic)


def keeping_identity(kind: ServedKind, change: Callable[[Object], Any]) -> Callable[[Object], Any]:
    """A patch whose result has a type (else a 400), and no other uid than the object (else a 422)."""

    def checked(shown: Object) -> Any:
        new, metadata = change(shown), shown["metadata"]
        for field in ("apiVersion", "kind"):
            if isinstance(new, dict) and not new.get(field):
                raise bodies.bad_request(f"Object '{field}' is missing in the patched object")
        uid = mapping(mapping(new).get("metadata")).get("uid")
        if uid not in (None, "", metadata["uid"]):
            cause = Cause("FieldValueInvalid", f'Invalid value: "{uid}": field is immutable', "metadata.uid")
            raise bodies.invalid(kind.kind, kind.group, metadata["name"], [cause])
        return new

    return checked


def bind(binding: Any, pod_name: str, moment: str) -> Callable[[Object], Object]:
    """A function that applies a Binding to a pod: it sets the node, once, and the condition of that."""
    if mapping(_object(binding).get("metadata")).get("name") != pod_name:
        raise bodies.bad_request("name in URL does not match name in Binding object")
    node = mapping(binding.get("target")).get("name")
    if not isinstance(node, str) or not node:
        raise bodies.bad_request("a Binding must name its target")

    def bound(pod: Object) -> Object:
        name, spec, why = pod["metadata"]["name"], pod["spec"], ""
        if spec.get("nodeName"):
            why = f"is already assigned to node {spec['nodeName']!r}"
        elif spec.get("schedulingGates"):
            why = "has non-empty .spec.schedulingGates"
        if why:
            text = f'Operation cannot be fulfilled on pods/binding "{name}": pod {name} {why}'
            raise bodies.Refusal(409, "Conflict", text)
        status = pod.get("status", {})
        scheduled = {"type": "PodScheduled", "status": "True"}
        return {
            **pod,
            "spec": {**spec, "nodeName": node},
            "status": {**status, "conditions": with_condition(status, scheduled, moment)},
        }

    return bound


def with_condition(status: Object, now: Object, moment: str) -> list[Object]:
    """The conditions of a status with one that is last; its time changes with its status."""
    known = {one.get("type"): one for one in status.get("conditions") or ()}
    old = known.pop(now["type"], {})
    since = old.get("lastTransitionTime") if old.get("status") == now["status"] else None
    return [*known.values(), {**now, "lastTransitionTime": since or moment}]


def _object(value: Any) -> Object:
    if not isinstance(value, dict):
        raise bodies.bad_request("expected an object")
    return value
