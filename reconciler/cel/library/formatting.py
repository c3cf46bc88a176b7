"""`"%s".format([...])`."""

import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from reconciler.cel.errors import CelError
from reconciler.cel.functions import Library
from reconciler.cel.library.times import duration_text, timestamp_text
from reconciler.cel.numbers import plain_text
from reconciler.cel.values import Meter, TypeValue, UInt, Value, key_value, name_of

LIBRARY = Library()

_CLAUSE = re.compile(r"%(%|(?:\.([0-9]+))?([a-zA-Z]))|%")
MAX_PRECISION = 1000
"""Digits after the decimal point."""


@LIBRARY.member("format", "string, list(dyn) -> string", metered=True)
def formatted(meter: Meter, text: str, values: tuple[Value, ...]) -> str:
    """`text` with each clause replaced by the next value."""
    left = iter(values)

    def replace(match: re.Match[str]) -> str:
        clause, precision, verb = match.groups()
        if clause == "%":
            return "%"
        if verb not in _ALL_VERBS:
            raise CelError(f"unrecognized formatting clause {match[0]!r}")
        if precision is not None and (
            verb not in "ef" or len(precision) > 4 or int(precision) > MAX_PRECISION
        ):
            raise CelError(f"a precision of {precision[:10]} cannot be used with %{verb}")
        try:
            value = next(left)
        except StopIteration:
            raise CelError(f"{match[0]!r} has no argument: {len(values)} given") from None
        made = _made(meter, verb, value, 6 if precision is None else int(precision))
        meter.charge(1 + len(made) // 10)
        return made

    meter.charge(1 + len(text) // 10)
    return _CLAUSE.sub(replace, text)


def _text(meter: Meter, value: Value) -> str:
    meter.charge(1)
    if type(value) is tuple:
        return f"[{', '.join([_text(meter, item) for item in value])}]"
    if isinstance(value, dict):
        pairs = sorted((_text(meter, key_value(key)), _text(meter, item)) for key, item in value.items())
        return "{" + ", ".join([f"{key}: {item}" for key, item in pairs]) + "}"
    plain = _PLAIN.get(type(value))
    if plain is None:
        raise CelError(f"{name_of(value)} cannot be formatted by %s")
    return plain(value)


def _of_bytes(value: bytes) -> str:
    return value.decode(errors="replace")


_PLAIN: Mapping[type, Callable[[Value], str]] = {
    str: lambda value: value,
    bool: lambda value: "true" if value else "false",
    int: str,
    UInt: lambda value: str(value.value),
    float: plain_text,
    bytes: _of_bytes,
    type(None): lambda _: "null",
    TypeValue: lambda value: value.name,
    timedelta: duration_text,
    datetime: timestamp_text,
}


def _whole(value: Value, verb: str) -> int:
    if type(value) is UInt:
        return value.value
    if type(value) is not int:
        raise CelError(f"{name_of(value)} cannot be formatted by %{verb}")
    return value


def _real(value: Value, verb: str) -> float:
    if type(value) in (int, float):
        return float(value)
    if type(value) is UInt:
        return float(value.value)
    raise CelError(f"{name_of(value)} cannot be formatted by %{verb}")


def _binary(value: Value) -> str:
    return format(int(value) if type(value) is bool else _whole(value, "b"), "b")


def _hexadecimal(value: Value) -> str:
    if type(value) is str:
        return value.encode().hex()
    return value.hex() if type(value) is bytes else format(_whole(value, "x"), "x")


_VERBS: Mapping[str, Callable[[Value], str]] = {
    "d": lambda value: str(_whole(value, "d")),
    "b": _binary,
    "o": lambda value: format(_whole(value, "o"), "o"),
    "x": _hexadecimal,
    "X": lambda value: _hexadecimal(value).upper(),
}
_ALL_VERBS = frozenset({*_VERBS, "s", "e", "f"})


def _made(meter: Meter, verb: str, value: Value, precision: int) -> str:
    if verb == "s":
        return _text(meter, value)
    if verb in "ef":
        return format(_real(value, verb), f".{precision}{verb}")
    return _VERBS[verb](value)
