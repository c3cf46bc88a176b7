"""Schemas of custom resources, as their resource definitions publish them, and the checks that follow.

A schema lists the fields that this project uses; a real definition has more. `unknown` names those that are
not listed.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from reconciler.api.validation.bodies import same
from reconciler.api.validation.fields import Cause, Field, parse_timestamp
from reconciler.api.validation.kinds import Object, Review


class Text(NamedTuple):
    """A string; lengths in characters."""

    longest: int | None = None
    shortest: int = 0
    pattern: str = ""
    """Of the whole string, from `^` to `$`, as definitions write it"""
    words: tuple[str, ...] = ()
    """The only ones allowed, if any"""


class Time(NamedTuple):
    """A time in RFC 3339."""


class Integer(NamedTuple):
    """A whole number."""

    least: int | None = None
    short: bool = False
    """Of 32 bits"""


class Flag(NamedTuple):
    """True or false."""


class AnyObject(NamedTuple):
    """An object whose fields are checked elsewhere, or by nobody."""


class Texts(NamedTuple):
    """A map of strings to strings."""

    value: Text = Text()
    most: int | None = None


class Items(NamedTuple):
    """A list."""

    of: "Schema"
    most: int | None = None
    fewest: int = 0
    key: str = ""
    """The field in which its entries differ, if they have to"""


class Fields(NamedTuple):
    """An object."""

    of: "Mapping[str, Schema]"
    required: tuple[str, ...] = ()
    immutable: tuple[str, ...] = ()


Schema = Text | Time | Integer | Flag | AnyObject | Texts | Items | Fields


DNS_LABEL: Final = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
DNS_SUBDOMAIN: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
MAX_MESSAGE: Final = 32_768
"""Characters of what people read"""
CONDITION: Final = Fields(
    {
        "type": Text(
            316,
            pattern=r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
            "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
        ),
        "status": Text(words=("True", "False", "Unknown")),
        "reason": Text(1024, 1, "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"),
        "message": Text(MAX_MESSAGE),
        "lastTransitionTime": Time(),
        "observedGeneration": Integer(0),
    },
    required=("type", "status", "reason", "message", "lastTransitionTime"),
)
"""metav1.Condition"""


def check(schema: Schema, new: Object, old: Object | None = None) -> list[Cause]:
    """What is wrong with an object, as an API server says it. `old` is what it replaces."""
    root = Field(new)
    _check(schema, root, old)
    return root.causes


def checked(schema: Schema) -> Callable[[Field, Review], None]:
    """The rules of a served kind."""
    return lambda root, review: _check(schema, root, review.old)


def unknown(schema: Schema, value: Any, path: str = "") -> Iterator[str]:
    """Paths of fields that the schema does not list."""
    match schema, value:
        case Fields(of=of), dict():
            for name, inner in value.items():
                here = f"{path}.{name}" if path else name
                if name in of:
                    yield from unknown(of[name], inner, here)
                else:
                    yield here
        case Items(of=of), list():
            for at, inner in enumerate(value):
                yield from unknown(of, inner, f"{path}[{at}]")


def _check(schema: Schema, field: Field, old: Any) -> None:
    if not field.present:
        return
    match schema:
        case Text():
            _text(schema, field)
        case Time():
            _time(field)
        case Integer(least=least, short=short):
            found = field.integer()
            if short and not -(2**31) <= found < 2**31:
                field.invalid("must be a 32-bit integer")
            if least is not None and found < least:
                field.invalid(f"should be greater than or equal to {least}")
        case Flag():
            field.flag()
        case AnyObject():
            field.object()
        case Texts(value=value, most=most):
            for _, one in field.entries():
                _text(value, one)
            if most is not None:
                field.at_most(most)
        case Items():
            _items(schema, field)
        case Fields():
            _fields(schema, field, old)


def _text(schema: Text, field: Field) -> None:
    text = field.text()
    if schema.words:
        field.one_of(schema.words)
    if schema.longest is not None and len(text) > schema.longest:
        field.too_long(schema.longest)
    if len(text) < schema.shortest:
        field.invalid(f"should be at least {schema.shortest} chars long")
    if schema.pattern and not re.fullmatch(schema.pattern, text):  # `$` would allow a line end
        field.invalid(f"should match '{schema.pattern}'")


def _time(field: Field) -> None:
    try:
        parse_timestamp(field.text())
    except ValueError:
        field.invalid("must be a time in RFC 3339 format")


def _items(schema: Items, field: Field) -> None:
    found = field.items()
    if schema.most is not None:
        field.at_most(schema.most)
    if len(found) < schema.fewest:
        field.invalid(f"should have at least {schema.fewest} items")
    seen: set[Any] = set()
    for one in found:
        _check(schema.of, one, None)
        if schema.key:
            one[schema.key].unique(seen)


def _fields(schema: Fields, field: Field, old: Any) -> None:
    field.object()
    before = old if isinstance(old, dict) else {}
    for name, inner in schema.of.items():
        one = field[name]
        if name in schema.required and not one.present:
            one.required()
        if name in schema.immutable and before.get(name) is not None and not same(before[name], one.value):
            one.invalid("field is immutable")
        _check(inner, one, before.get(name))
