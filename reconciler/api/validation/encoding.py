"""Bytes to objects and back: strict JSON, limited depth, no nulls."""

import json
import math
from typing import Any

from reconciler.api.validation.status import bad_request

MAX_DEPTH = 100
"""Levels of nesting. Real objects need about twenty; deeper ones would exhaust the stack later."""
MAX_BODY = 3 * 1024 * 1024
"""Bytes of a request's body."""
_RAW = ("parameters", "data", "stringData", "binaryData")
"""Fields with opaque values: kept unchanged, including nulls."""


def encode(value: Any) -> bytes:
    """Compact JSON in ASCII, so that any decoded string can be encoded."""
    return json.dumps(value, separators=(",", ":")).encode()


def decode_json(body: bytes) -> Any:
    """Decode JSON. Raises a 400 with the reason."""
    try:
        return json.loads(body, parse_constant=_no_constant, parse_float=_finite)
    except ValueError as exc:
        raise bad_request(f"couldn't get version/kind; json parse error: {exc}") from exc
    except RecursionError as exc:
        raise bad_request("json parse error: nested too deeply") from exc


def tidy(value: Any, depth: int = 0) -> Any:
    """A deep copy without nulls, like the result of a typed decoder. Refuses excessive depth."""
    if isinstance(value, dict):
        if depth > MAX_DEPTH:
            raise bad_request(f"exceeded max depth of {MAX_DEPTH}")
        return {k: (copy if k in _RAW else tidy)(v, depth + 1) for k, v in value.items() if v is not None}
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
