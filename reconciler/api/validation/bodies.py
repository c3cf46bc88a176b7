"""Bodies of requests and answers: strict JSON and YAML of limited depth, and the Status of an error."""

import json
import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

import yaml

from reconciler.api.validation.fields import Cause
from reconciler.errors import Rejected


class Refusal(Rejected):
    """An error response with a Status body."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: dict[str, Any] | None = None,
        retry_after: int = 0,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.retry_after = retry_after

    def body(self) -> dict[str, Any]:
        """The Status object."""
        details = dict(self.details) if self.details is not None else None
        if self.retry_after:
            details = {**(details or {}), "retryAfterSeconds": self.retry_after}
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            **({"reason": self.reason} if self.reason else {}),
            **({"details": details} if details is not None else {}),
            "code": self.code,
        }


def _details(name: str, group: str, kind: str) -> dict[str, Any]:
    return {"name": name, **({"group": group} if group else {}), "kind": kind}


def _qualified(what: str, group: str) -> str:
    return f"{what}.{group}" if group else what


def not_found(plural: str, group: str, name: str) -> Refusal:
    """404: the object does not exist."""
    message = f'{_qualified(plural, group)} "{name}" not found'
    return Refusal(404, "NotFound", message, details=_details(name, group, plural))


def no_such_resource() -> Refusal:
    """404: a path below a served group and version that names no resource."""
    return Refusal(404, "NotFound", "the server could not find the requested resource", details={})


def already_exists(plural: str, group: str, name: str) -> Refusal:
    """409: a create with a name in use."""
    message = f'{_qualified(plural, group)} "{name}" already exists'
    return Refusal(409, "AlreadyExists", message, details=_details(name, group, plural))


def conflict(
    plural: str,
    group: str,
    name: str,
    why: str = "the object has been modified; please apply your changes to the latest version and try again",
) -> Refusal:
    """409: a precondition does not hold."""
    message = f'Operation cannot be fulfilled on {_qualified(plural, group)} "{name}": {why}'
    return Refusal(409, "Conflict", message, details=_details(name, group, plural))


def bad_request(message: str) -> Refusal:
    """400: the request is malformed."""
    return Refusal(400, "BadRequest", message)


def method_not_allowed() -> Refusal:
    """405: the path exists but does not support the method."""
    message = "the server does not allow this method on the requested resource"
    return Refusal(405, "MethodNotAllowed", message, details={})


def not_implemented(message: str) -> Refusal:
    """501: real servers serve the path, this one does not."""
    return Refusal(501, "NotImplemented", message, details={})


def too_large(limit: int) -> Refusal:
    """413: the body exceeds the limit."""
    return Refusal(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit}", details={})


def unsupported_media_type() -> Refusal:
    """415: an unsupported type of body or patch."""
    # Also of application/yaml, which real servers accept.
    return Refusal(415, "UnsupportedMediaType", "415: Unsupported Media Type", details={})


def invalid(kind: str, group: str, name: str, causes: Iterable[Cause]) -> Refusal:
    """422: one cause per violated rule."""
    causes = list(causes)
    text = "; ".join(f"{cause.field}: {cause.message}" for cause in causes)
    if len(causes) > 1:
        text = f"[{text}]"
    details = _details(name, group, kind)
    details["causes"] = [
        {"reason": cause.reason, "message": cause.message, "field": cause.field} for cause in causes
    ]
    return Refusal(422, "Invalid", f'{_qualified(kind, group)} "{name}" is invalid: {text}', details=details)


def patch_failed(why: str) -> Refusal:
    """422: a JSON patch does not apply to the object."""
    return Refusal(422, "Invalid", f"the patch does not apply: {why}", details={})


def expired(message: str) -> Refusal:
    """410: the requested history is compacted."""
    return Refusal(410, "Expired", message)


def version_too_large(requested: int, current: int) -> Refusal:
    """504: the requested version is newer than the store's."""
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    message = f"Timeout: Too large resource version: {requested}, current: {current}"
    return Refusal(504, "Timeout", message, details={"causes": [cause]}, retry_after=1)


MAX_DEPTH = 100
"""Levels of nesting. Real objects need about twenty; deeper ones would exhaust the stack later."""
MAX_BODY = 3 * 1024 * 1024
"""Bytes of a request's body."""
_RAW = ("parameters", "data", "stringData", "binaryData")
"""Fields with opaque values: kept unchanged, including nulls."""


_COMPACT = json.JSONEncoder(separators=(",", ":"))
_OF_OBJECTS = ("attributes", "counters")
"""Maps of objects: a null in them is an empty object to a typed decoder."""


def encode(value: Any) -> bytes:
    """Compact JSON in ASCII, so that any decoded string can be encoded."""
    return _COMPACT.encode(value).encode()


class DoubledKeys(dict[str, Any]):
    """An object of a JSON text that has some keys more than once; the last value counts."""

    keys_of_several: Iterable[str] = ()


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    doubled = DoubledKeys(found)
    times = Counter(key for key, _ in pairs)
    doubled.keys_of_several = [key for key, count in times.items() if count > 1]
    return doubled


def decode_json(body: bytes) -> Any:
    """Decode JSON. Raises a 400 with the reason."""
    try:
        return json.loads(body, parse_constant=_no_constant, parse_float=_finite, object_pairs_hook=_object)
    except ValueError as exc:
        raise bad_request(f"couldn't get version/kind; json parse error: {exc}") from exc
    except RecursionError as exc:
        raise bad_request("json parse error: nested too deeply") from exc


def tidy(value: Any, depth: int = 0) -> Any:
    """A deep copy without nulls, like the result of a typed decoder. Refuses excessive depth."""
    if isinstance(value, dict):
        if depth > MAX_DEPTH:
            raise bad_request(f"exceeded max depth of {MAX_DEPTH}")
        tidied = {
            k: v if type(v) is str or k == "managedFields" else (copy if k in _RAW else tidy)(v, depth + 1)
            for k, v in value.items()
            if v is not None
        }
        for key in _OF_OBJECTS:
            if isinstance(entries := value.get(key), dict) and None in entries.values():
                empty: dict[str, Any] = {name: {} for name, entry in entries.items() if entry is None}
                tidied[key] = {**tidied[key], **empty}
        return tidied
    if isinstance(value, list):
        if depth > MAX_DEPTH:
            raise bad_request(f"exceeded max depth of {MAX_DEPTH}")
        return [tidy(v, depth + 1) for v in value]
    return value


def copy(value: Any, depth: int = 0) -> Any:
    """A deep copy including nulls. Refuses excessive depth."""
    if depth > MAX_DEPTH:
        raise bad_request(f"exceeded max depth of {MAX_DEPTH}")
    if isinstance(value, dict):
        return {k: copy(v, depth + 1) for k, v in value.items()}
    if isinstance(value, list):
        return [copy(v, depth + 1) for v in value]
    return value


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal as JSON, where true is not 1."""
    return one == other and json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _no_constant(name: str) -> Any:
    raise ValueError(f"invalid character in literal {name}")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"number {text} is out of range")
    return number


def decode_yaml(body: bytes) -> Any:
    """Decode one YAML document. Aliases are refused: a small file could expand to a huge object."""
    try:
        return yaml.load(body, Loader=_PlainLoader)
    except (yaml.YAMLError, TypeError, ValueError) as exc:
        raise bad_request(f"yaml parse error: {exc}") from exc
    except RecursionError as exc:
        raise bad_request("yaml parse error: nested too deeply") from exc


class _PlainLoader(yaml.SafeLoader):
    """YAML limited to JSON's types: no aliases, no timestamps."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not accepted")
        return super().compose_node(parent, index)


_PlainLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_PlainLoader.add_constructor(
    "tag:yaml.org,2002:map", lambda loader, node: _object(loader.construct_pairs(node, deep=True))
)
