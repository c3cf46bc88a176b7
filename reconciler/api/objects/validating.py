"""Converts JSON to typed objects, and validation errors to one line that a user can act on."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, TypeVar

from pydantic import ValidationError

from reconciler.api.objects.meta import ApiObject
from reconciler.api.objects.model import MISPLACED
from reconciler.errors import Malformed

T = TypeVar("T", bound=ApiObject)

_OPAQUE = ("parameters", "data")
"""Fields whose content belongs to a driver and may contain nulls"""


def validated(model: type[T], raw: Mapping[str, Any]) -> T:
    """The typed object. Raises Malformed naming kind, name, field and reason."""
    # The API treats null as absent everywhere, the models do not: they are given objects without nulls then.
    with suppress(ValidationError):
        return model.model_validate(raw)
    try:
        return model.model_validate(without_nulls(raw))
    except ValidationError as exc:
        raise _refusal(subject_of(raw), exc) from exc
    except RecursionError as exc:
        raise Malformed(subject_of(raw), "", "is nested too deeply") from exc


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
    """The first problem that pydantic reports, as one line."""
    problem = exc.errors(include_url=False)[0]
    reason = said_plainly(problem)
    got = problem.get("input")
    if isinstance(got, str | int | float) and got != "" and repr(got) not in reason:
        reason = f"{reason}, got {got if isinstance(got, bool) else repr(got)[:80]}"
    field = problem.get("ctx", {}).get("field") if problem["type"] == MISPLACED else None
    return Malformed(subject, _path((*problem["loc"], field) if field else problem["loc"]), reason)


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
