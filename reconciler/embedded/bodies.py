"""Decode the bodies of requests: JSON, and the protobuf of what kubectl 1.30 to 1.36 sends in no other form.

That is `create` of a configmap, namespace, service or poddisruptionbudget by its name, `auth can-i`,
`auth whoami` and `drain`. All responses are JSON, except for OpenAPI v2.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from reconciler.api.validation.bodies import bad_request, decode_json, unsupported_media_type
from reconciler.api.validation.kinds import Object
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
            "spec",
            {1: _Member("resourceAttributes", _RESOURCE), 2: _Member("nonResourceAttributes", _PATH)},
        ),
    },
    ("authorization.k8s.io/v1", "SelfSubjectRulesReview"): {2: _Member("spec", {1: _Member("namespace")})},
}


def decode_protobuf(body: bytes) -> Object:
    """The object in a protobuf envelope. Raises a 400, or a 415 for other kinds."""
    if not body.startswith(_MAGIC):
        raise bad_request("a protobuf body must start with the Kubernetes envelope")
    try:
        envelope = dict(_fields(body[len(_MAGIC) :]))
        head = _message(envelope.get(1, b""), _TYPE_META)
        members = _KINDS.get((head.get("apiVersion", ""), head.get("kind", "")))
        if members is None:
            raise unsupported_media_type()
        return {**head, **_message(envelope.get(2, b""), members)}
    except (AttributeError, ValueError, IndexError, TypeError) as exc:
        raise bad_request(f"protobuf parse error: {exc}") from exc


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
        raise unsupported_media_type()
    return decode_json(request.body)
