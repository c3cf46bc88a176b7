"""The operators and functions of standard CEL, with regular expressions by RE2.

Equality, logic and indexing are part of the evaluator.
"""

import math
import operator
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from reconciler.cel.errors import MAX_REGEX_LENGTH, REGEX_MEMORY, CelError
from reconciler.cel.library.times import (
    double_text,
    duration_text,
    parse_duration,
    parse_timestamp,
    timestamp_text,
)
from reconciler.cel.types import Library
from reconciler.cel.values import (
    INT_MAX,
    INT_MIN,
    UINT_MAX,
    Meter,
    TypeValue,
    UInt,
    Value,
    checked_int,
    checked_uint,
    map_key,
    name_of,
    number,
    same,
)

LIBRARY = Library()

_NUMERIC = ("int", "uint", "double")
_PLAIN = tuple(f"{a}, {b} -> bool" for a in _NUMERIC for b in _NUMERIC) + tuple(
    f"{each}, {each} -> bool" for each in ("bool", "duration", "timestamp")
)


def _shorter(left: Value, right: Value) -> int:
    return min(len(left), len(right)) // 10


def _ordering(name: str, compare: Callable[[Value, Value], bool]) -> None:
    LIBRARY.function(name, *_PLAIN)(lambda left, right: compare(number(left), number(right)))
    LIBRARY.function(name, "string, string -> bool", "bytes, bytes -> bool", cost=_shorter)(compare)


_ordering("_<_", operator.lt)
_ordering("_<=_", operator.le)
_ordering("_>_", operator.gt)
_ordering("_>=_", operator.ge)


def _arithmetic(name: str, compute: Callable[[int, int], int]) -> None:
    LIBRARY.function(name, "int, int -> int")(lambda a, b: checked_int(compute(a, b)))
    LIBRARY.function(name, "uint, uint -> uint")(lambda a, b: checked_uint(compute(a.value, b.value)))


_arithmetic("_+_", operator.add)
_arithmetic("_-_", operator.sub)
_arithmetic("_*_", operator.mul)
LIBRARY.function("_+_", "double, double -> double")(operator.add)
LIBRARY.function("_-_", "double, double -> double")(operator.sub)
LIBRARY.function("_*_", "double, double -> double")(operator.mul)


def _quotient(left: int, right: int) -> int:
    if right == 0:
        raise CelError("division by zero")
    whole = abs(left) // abs(right)
    return whole if (left < 0) == (right < 0) else -whole


def _remainder(left: int, right: int) -> int:
    if right == 0:
        raise CelError("modulus by zero")
    return left - right * _quotient(left, right)


_arithmetic("_/_", _quotient)
_arithmetic("_%_", _remainder)


@LIBRARY.function("_/_", "double, double -> double")
def _divide(left: float, right: float) -> float:
    if right:
        return left / right
    return (
        math.nan if left == 0 or math.isnan(left) else math.copysign(math.inf, left) * math.copysign(1, right)
    )


@LIBRARY.function("-_", "int -> int")
def _negate(value: int) -> int:
    return checked_int(-value)


LIBRARY.function("-_", "double -> double")(operator.neg)
LIBRARY.function("!_", "bool -> bool")(operator.not_)


@LIBRARY.function(
    "_+_", "string, string -> string", "bytes, bytes -> bytes", cost=lambda a, b: (len(a) + len(b)) // 10
)
def _concatenate(left: Value, right: Value) -> Value:
    return left + right


LIBRARY.function("_+_", "list(T), list(T) -> list(T)", cost=lambda a, b: len(a) + len(b))(_concatenate)


def _in_time(compute: Callable[[Value, Value], Value]) -> Callable[[Value, Value], Value]:
    def run(left: Value, right: Value) -> Value:
        try:
            return compute(left, right)
        except OverflowError:
            raise CelError("time out of range") from None

    return run


LIBRARY.function(
    "_+_",
    "duration, duration -> duration",
    "timestamp, duration -> timestamp",
    "duration, timestamp -> timestamp",
)(_in_time(operator.add))
LIBRARY.function(
    "_-_",
    "duration, duration -> duration",
    "timestamp, duration -> timestamp",
    "timestamp, timestamp -> duration",
)(_in_time(operator.sub))


@LIBRARY.function("_in_", "T, list(T) -> bool", metered=True)
def _in_list(meter: Meter, wanted: Value, items: tuple[Value, ...]) -> bool:
    return any(same(meter, wanted, item) for item in items)


@LIBRARY.function("_in_", "K, map(K, V) -> bool")
def _in_map(wanted: Value, items: dict[Value, Value]) -> bool:
    return contains_key(items, wanted)


def contains_key(items: dict[Value, Value], wanted: Value) -> bool:
    """Whether a map has a key; False for a value that cannot be a key."""
    try:
        return map_key(wanted) in items
    except CelError:
        return False


@lru_cache(maxsize=256)
def compiled(pattern: str) -> Any:
    """The compiled pattern. Raises CelError."""
    if len(pattern) > MAX_REGEX_LENGTH:
        raise CelError(
            f"the regular expression has {len(pattern)} characters; use at most {MAX_REGEX_LENGTH}"
        )
    import re2  # noqa: PLC0415 - takes 2 ms, and few selectors have patterns

    options = re2.Options()
    options.max_mem = REGEX_MEMORY
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as exc:
        reason = exc.args[0].decode() if isinstance(exc.args[0], bytes) else exc.args[0]
        raise CelError(f"{pattern!r} is not a regular expression: {reason}") from None


def search_cost(text: str, pattern: str, *_: int) -> int:
    """Steps of a search: at worst, each character runs each instruction of the compiled pattern."""
    return len(text) * compiled(pattern).programsize // 100


@LIBRARY.member("find", "string, string -> string", cost=search_cost)
def find(text: str, pattern: str) -> str:
    """The first match, or the empty string."""
    found = compiled(pattern).search(text)
    return found.group() if found else ""


@LIBRARY.member(
    "findAll", "string, string -> list(string)", "string, string, int -> list(string)", cost=search_cost
)
def find_all(text: str, pattern: str, most: int = -1) -> tuple[str, ...]:
    """All matches, or the first `most`; a negative number means all."""
    found: list[str] = []
    for match in compiled(pattern).finditer(text):
        if len(found) == most:
            break
        found.append(match.group())
    return tuple(found)


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
