"""Strict JSON parsing of annotations: an error of syntax has line and column, one of shape its path."""

import json
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from pydantic import TypeAdapter, ValidationError

from reconciler.api.objects.validating import said_plainly, without_nulls
from reconciler.errors import Malformed

MAX_LENGTH = 2**20
"""Characters. The API limits all annotations of an object to a quarter of it."""

Path = Sequence[int | str]
"""Keys and indexes, from the whole value to a part of it"""

_KEY = "[key]"
"""Follows the key in the path of an error about a key"""
_STRING_OR_NO_NUMBER = re.compile(r'"(?:[^"\\]|\\.)*"|-?Infinity|NaN|-?\d{4301,}', re.DOTALL)


def read(subject: str, annotation: str, text: str) -> Any:
    """The value of an annotation. Raises Malformed with the place of the error.

    Comments and trailing commas are not JSON.
    """
    if len(text) > MAX_LENGTH:
        raise Malformed(subject, annotation, f"{len(text)} characters; at most {MAX_LENGTH} are read")
    try:
        return json.loads(text, parse_constant=_no_number)
    except json.JSONDecodeError as exc:
        hint = "; comments are not JSON" if text[exc.pos : exc.pos + 1] in ("/", "#") else ""
        raise Malformed(subject, annotation, f"not JSON at {_place(text, exc.pos)}: {exc.msg}{hint}") from exc
    except RecursionError as exc:
        raise Malformed(subject, annotation, "nested too deeply") from exc
    except ValueError as exc:
        odd = (found.start() for found in _STRING_OR_NO_NUMBER.finditer(text) if found[0][0] != '"')
        where = _place(text, next(odd, 0))
        raise Malformed(subject, annotation, f"not JSON at {where}: {exc}") from exc


def read_as(shape: TypeAdapter[Any], subject: str, annotation: str, text: str) -> Any:
    """The value of an annotation in its declared shape. Raises Malformed."""
    return validated(shape, read(subject, annotation, text), subject, annotation)


def validated(
    shape: TypeAdapter[Any],
    value: Any,
    subject: str,
    annotation: str,
    *,
    path_in_text: Callable[[Path], Path] = tuple,
) -> Any:
    """A parsed value in its declared shape. Raises Malformed.

    `path_in_text` says where a part of `value` was in the text, if `value` was rearranged.
    """
    try:
        return shape.validate_python(value)
    except ValidationError as exc:
        with suppress(ValidationError, RecursionError):  # null is absent, as in all objects of the API
            return shape.validate_python(without_nulls(value))
        first = exc.errors()[0]
        at = path_in_text([part for part in first["loc"] if part != _KEY])
        path = ".".join(map(str, at))
        why = said_plainly(first)
        raise Malformed(subject, annotation, f"{path}: {why}" if path else why) from exc


def _place(text: str, at: int) -> str:
    return f"line {text.count(chr(10), 0, at) + 1} column {at - text.rfind(chr(10), 0, at)}"


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no number")
