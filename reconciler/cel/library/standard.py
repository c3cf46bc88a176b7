"""The functions of standard CEL: size, conversions, type, and string tests."""

import math
import re
from datetime import UTC, datetime, timedelta

from reconciler.cel.errors import CelError
from reconciler.cel.functions import Library
from reconciler.cel.library.regexes import compiled, search_cost
from reconciler.cel.library.times import duration_text, parse_duration, parse_timestamp, timestamp_text
from reconciler.cel.numbers import double_text
from reconciler.cel.values import (
    INT_MAX,
    INT_MIN,
    UINT_MAX,
    TypeValue,
    UInt,
    Value,
    checked_int,
    checked_uint,
    name_of,
)

LIBRARY = Library()
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_DOUBLE = re.compile(
    r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf|infinity|nan)", re.ASCII | re.IGNORECASE
)
_DIGITS = 40
"""Maximum digits: longer numbers never fit, and the limit keeps the conversion cheap."""
_TRUTHS = {"1": True, "t": True, "T": True, "true": True, "TRUE": True, "True": True} | {
    "0": False, "f": False, "F": False, "false": False, "FALSE": False, "False": False,
}  # fmt: skip

_SIZED = ("string -> int", "bytes -> int", "list(T) -> int", "map(K, V) -> int")
LIBRARY.function("size", *_SIZED)(len)
LIBRARY.member("size", *_SIZED)(len)


def _scan(text: str, part: str) -> int:
    return (len(text) + len(part)) // 10


LIBRARY.member("contains", "string, string -> bool", cost=_scan)(str.__contains__)
LIBRARY.member("startsWith", "string, string -> bool", cost=lambda _, part: len(part) // 10)(str.startswith)
LIBRARY.member("endsWith", "string, string -> bool", cost=lambda _, part: len(part) // 10)(str.endswith)


@LIBRARY.function("matches", "string, string -> bool", cost=search_cost)
@LIBRARY.member("matches", "string, string -> bool", cost=search_cost)
def matches(text: str, pattern: str) -> bool:
    """Whether the pattern is found anywhere in the text."""
    return compiled(pattern).search(text) is not None


@LIBRARY.function("dyn", "T -> dyn")
@LIBRARY.function("int", "int -> int")
@LIBRARY.function("uint", "uint -> uint")
@LIBRARY.function("double", "double -> double")
@LIBRARY.function("string", "string -> string")
@LIBRARY.function("bytes", "bytes -> bytes")
@LIBRARY.function("bool", "bool -> bool")
@LIBRARY.function("duration", "duration -> duration")
@LIBRARY.function("timestamp", "timestamp -> timestamp")
def _itself(value: Value) -> Value:
    return value


LIBRARY.function("type", "T -> type(T)")(lambda value: TypeValue(name_of(value)))


def _whole(text: str) -> int:
    if len(text) > _DIGITS or _INTEGER.fullmatch(text) is None:
        raise CelError(f"{text[:_DIGITS]!r} is not an integer")
    return int(text)


def _truncated(value: float) -> int:
    if not math.isfinite(value):
        raise CelError("integer overflow")
    return int(value)


@LIBRARY.function("int", "string -> int", cost=lambda text: len(text) // 10)
def _int_of_string(text: str) -> int:
    return checked_int(_whole(text))


@LIBRARY.function("int", "double -> int")
def _int_of_double(value: float) -> int:
    # The limits themselves are refused: as a double, 2**63 - 1 equals 2**63.
    if not INT_MIN < value < INT_MAX:
        raise CelError("integer overflow")
    return int(value)


LIBRARY.function("int", "uint -> int")(lambda value: checked_int(value.value))
LIBRARY.function("int", "timestamp -> int")(lambda value: int(value.timestamp() // 1))
LIBRARY.function("int", "duration -> int")(lambda value: value // timedelta(microseconds=1) * 1000)
LIBRARY.function("uint", "int -> uint")(checked_uint)
LIBRARY.function("uint", "double -> uint")(lambda value: checked_uint(_truncated(value)))
LIBRARY.function("double", "int -> double")(float)
LIBRARY.function("double", "uint -> double")(lambda value: float(value.value))


@LIBRARY.function("uint", "string -> uint", cost=lambda text: len(text) // 10)
def _uint_of_string(text: str) -> UInt:
    value = _whole(text)
    if text[0] in "+-" or value > UINT_MAX:
        raise CelError(f"{text!r} is not an unsigned integer")
    return UInt(value)


@LIBRARY.function("double", "string -> double", cost=lambda text: len(text) // 10)
def _double_of_string(text: str) -> float:
    if _DOUBLE.fullmatch(text) is None:
        raise CelError(f"{text[:_DIGITS]!r} is not a number")
    return float(text)


LIBRARY.function("string", "int -> string")(str)
LIBRARY.function("string", "uint -> string")(lambda value: str(value.value))
LIBRARY.function("string", "double -> string")(double_text)
LIBRARY.function("string", "bool -> string")(lambda value: "true" if value else "false")
LIBRARY.function("string", "timestamp -> string")(timestamp_text)
LIBRARY.function("string", "duration -> string")(duration_text)


@LIBRARY.function("string", "bytes -> string", cost=lambda value: len(value) // 10)
def _string_of_bytes(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise CelError("the bytes are not UTF-8") from None


LIBRARY.function("bytes", "string -> bytes", cost=lambda text: len(text) // 10)(str.encode)


@LIBRARY.function("bool", "string -> bool")
def _bool_of_string(text: str) -> bool:
    try:
        return _TRUTHS[text]
    except KeyError:
        raise CelError(f"{text[:_DIGITS]!r} is not a bool") from None


LIBRARY.function("duration", "string -> duration")(parse_duration)
LIBRARY.function("timestamp", "string -> timestamp")(parse_timestamp)


@LIBRARY.function("timestamp", "int -> timestamp")
def _timestamp_of_int(seconds: int) -> datetime:
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    except OverflowError:
        raise CelError("time out of range") from None
