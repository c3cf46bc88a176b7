"""From JSON to typed objects, strict for annotations, and validation errors as one line that a user can
act on.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from pydantic import PlainValidator, TypeAdapter, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from reconciler.api.objects.model import MISPLACED, Model, aliases_of
from reconciler.api.objects.similar_names import instead
from reconciler.errors import Malformed

T = TypeVar("T", bound=Model)

MOST_PROBLEMS = 20
"""Mistakes of one object that are named"""
_OPAQUE = ("parameters", "data")
"""Fields whose content belongs to a driver and may contain nulls"""


def validated(model: type[T], raw: Mapping[str, Any], subject: str = "") -> T:
    """The typed object. Raises Malformed naming the field, the reason and the subject, or kind and name."""
    # The API treats null as absent everywhere, the models do not: they are given objects without nulls then.
    with suppress(ValidationError):
        return model.model_validate(raw)
    try:
        return model.model_validate(without_nulls(raw))
    except ValidationError as exc:
        raise _refusal(subject or subject_of(raw), exc) from exc
    except RecursionError as exc:
        raise Malformed(subject or subject_of(raw), "", "is nested too deeply") from exc


class Own(Model):
    """An object of our own: an unknown field is an error, not a field of a later release."""

    @model_validator(mode="before")
    @classmethod
    def _knows(cls, value: Any) -> Any:
        known = aliases_of(cls)
        for field in value if isinstance(value, Mapping) else ():
            if field not in known:
                hint = instead(str(field), known, "fields")
                raise PydanticCustomError(
                    MISPLACED, "is not known{hint}", {"field": str(field), "hint": hint}
                )
        return value


def whole_number(least: int, most: int) -> PlainValidator:
    """For fields with a whole number within limits."""

    def check(value: object) -> object:
        if type(value) is int and least <= value <= most:
            return value
        limits = {"least": least, "most": most}
        raise PydanticCustomError("whole_number", "must be a whole number from {least} to {most}", limits)

    return PlainValidator(check)


def without_nulls(value: Any) -> Any:
    """Plain JSON without what is null, apart from what belongs to a driver."""
    if isinstance(value, Mapping):
        return {
            key: part if key in _OPAQUE else without_nulls(part)
            for key, part in value.items()
            if part is not None
        }
    return [without_nulls(part) for part in value] if isinstance(value, list) else value


def subject_of(raw: Mapping[str, Any]) -> str:
    """`Kind namespace/name`, as far as they are known."""
    metadata = raw.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    name = metadata.get("name") or metadata.get("generateName") or "(without a name)"
    namespace = metadata.get("namespace")
    return f"{raw.get('kind')} {namespace}/{name}" if namespace else f"{raw.get('kind')} {name}"


def _refusal(subject: str, exc: ValidationError) -> Malformed:
    """The first problem that pydantic reports, as one line, and others."""
    first, *others = map(_said, exc.errors(include_url=False)[:MOST_PROBLEMS])
    return Malformed(subject, *first, others)


def _said(problem: Mapping[str, Any]) -> tuple[str, str]:
    """Field and reason."""
    reason = said_plainly(problem)
    got = problem.get("input")
    if isinstance(got, str | int | float) and got != "" and repr(got) not in reason:
        reason = f"{reason}, got {got if isinstance(got, bool) else repr(got)[:80]}"
    return _path(place_of(problem)), reason


def place_of(problem: Mapping[str, Any]) -> tuple[int | str, ...]:
    """Where an error of pydantic is. A model that refuses a field knows its name."""
    loc: tuple[int | str, ...] = problem["loc"]
    return (*loc, problem["ctx"]["field"]) if problem["type"] == MISPLACED else loc


def said_plainly(problem: Mapping[str, Any]) -> str:
    """An error of pydantic in our words: its own name classes of the program."""
    if problem["type"] in _REASONS:
        return _REASONS[problem["type"]].format_map(problem.get("ctx", {}))
    return str(problem["msg"]).removeprefix("Value error, ")


_REASONS = {
    "missing": "is missing",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "dataclass_type": "must be an object",
    "dict_type": "must be an object",
    "tuple_type": "must be a list",
    "too_short": "must be a list of {min_length} or more",
    "too_long": "must be a list of at most {max_length}",
    "string_type": "must be a string",
    "string_unicode": "must be valid UTF-8 text",
    "int_type": "must be an integer",
    "bool_type": "must be true or false",
    "string_too_short": "must not be empty",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "literal_error": "must be {expected}",
}
"""pydantic's error types -> messages that fit a manifest"""


def _path(location: tuple[int | str, ...]) -> str:
    path = ""
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part
    return path


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
    return validated_annotation(shape, read(subject, annotation, text), subject, annotation)


def validated_annotation(
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
        at = path_in_text([part for part in place_of(first) if part != _KEY])
        path = ".".join(map(str, at))
        why = said_plainly(first)
        raise Malformed(subject, annotation, f"{path}: {why}" if path else why) from exc


def _place(text: str, at: int) -> str:
    return f"line {text.count(chr(10), 0, at) + 1} column {at - text.rfind(chr(10), 0, at)}"


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no number")
