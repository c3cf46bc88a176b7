"""JSON in annotations: read strictly, refused with line and column."""

import json
from typing import Any

from pydantic import TypeAdapter, ValidationError

from reconciler.errors import Malformed

MAX_LENGTH = 2**20
"""Characters. The API limits all annotations of an object to a quarter of this."""


def read(subject: str, annotation: str, text: str) -> Any:
    """The value an annotation holds.

    Comments and trailing commas are not JSON. Raises Malformed that says where reading stopped.
    """
    if len(text) > MAX_LENGTH:
        raise Malformed(subject, annotation, f"{len(text)} characters; at most {MAX_LENGTH} are read")
    try:
        return json.loads(text, parse_constant=_no_number)
    except json.JSONDecodeError as exc:
        hint = "; comments are not JSON" if text[exc.pos : exc.pos + 1] in ("/", "#") else ""
        where = f"line {exc.lineno} column {exc.colno}"
        raise Malformed(subject, annotation, f"not JSON at {where}: {exc.msg}{hint}") from exc
    except RecursionError as exc:
        raise Malformed(subject, annotation, "nested too deeply") from exc
    except ValueError as exc:
        raise Malformed(subject, annotation, f"not JSON: {exc}") from exc


def read_as(shape: TypeAdapter[Any], subject: str, annotation: str, text: str) -> Any:
    """The value an annotation holds, in its declared shape. Raises Malformed."""
    value = read(subject, annotation, text)
    try:
        return shape.validate_python(value)
    except ValidationError as exc:
        first = exc.errors()[0]
        path = ".".join(str(part) for part in first["loc"])
        raise Malformed(subject, annotation, f"{path}: {first['msg']}" if path else first["msg"]) from exc


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no number")
