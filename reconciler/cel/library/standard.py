"""The operators and functions of standard CEL, with regular expressions by RE2.

Equality, logic and indexing are part of the evaluator.
"""

import math
import operator
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from reconciler.cel import values
from reconciler.cel.errors import MAX_REGEX_LENGTH, REGEX_MEMORY, CelError
from reconciler.cel.library import times
from reconciler.cel.types import Library

LIBRARY = Library()

_ORDERED = (
    "bool, bool -> bool",
    *("int, int -> bool", "int, double -> bool", "int, uint -> bool"),
    *("uint, uint -> bool", "uint, double -> bool", "uint, int -> bool"),
    *("double, double -> bool", "double, int -> bool", "double, uint -> bool"),
    "string, string -> bool",
    "bytes, bytes -> bool",
    "timestamp, timestamp -> bool",
    "duration, duration -> bool",
)


def _shorter(left: values.Value, right: values.Value) -> int:
    return min(len(left), len(right)) // 10 if isinstance(left, str | bytes) else 0


def comparable(left: values.Value, right: values.Value) -> tuple[values.Value, values.Value]:
    """Two values of ordered types as Python orders them. Numbers beside a double become doubles.

    Raises CelError for NaN.
    """
    left, right = values.number(left), values.number(right)
    if type(left) is float or type(right) is float:
        left, right = float(left), float(right)
        if math.isnan(left) or math.isnan(right):
            raise CelError("NaN values cannot be ordered")
    return left, right


def _ordering(name: str, compare: Callable[[values.Value, values.Value], bool]) -> None:
    LIBRARY.function(name, *_ORDERED, cost=_shorter)(lambda left, right: compare(*comparable(left, right)))


_ordering("_<_", operator.lt)
_ordering("_<=_", operator.le)
_ordering("_>_", operator.gt)
_ordering("_>=_", operator.ge)


def _on_ints(name: str, compute: Callable[[int, int], int]) -> None:
    LIBRARY.function(name, "int, int -> int")(lambda a, b: values.checked_int(compute(a, b)))


def _on_uints(name: str, compute: Callable[[int, int], int]) -> None:
    LIBRARY.function(name, "uint, uint -> uint")(lambda a, b: values.checked_uint(compute(a.value, b.value)))


# The order of the overloads is that of cel-go, since the first that fits decides open types (`Inference`).
def _length_of_both(left: values.Value, right: values.Value) -> int:
    return (len(left) + len(right)) // 10


LIBRARY.function("_+_", "bytes, bytes -> bytes", cost=_length_of_both)(operator.add)
LIBRARY.function("_+_", "double, double -> double")(operator.add)
LIBRARY.function(
    "_+_",
    "duration, duration -> duration",
    "duration, timestamp -> timestamp",
    "timestamp, duration -> timestamp",
)(times.added)
_on_ints("_+_", operator.add)
LIBRARY.function("_+_", "list(T), list(T) -> list(T)", cost=lambda a, b: len(a) + len(b))(operator.add)
LIBRARY.function("_+_", "string, string -> string", cost=_length_of_both)(operator.add)
_on_uints("_+_", operator.add)

LIBRARY.function("_-_", "double, double -> double")(operator.sub)
LIBRARY.function("_-_", "duration, duration -> duration")(times.subtracted)
_on_ints("_-_", operator.sub)
LIBRARY.function("_-_", "timestamp, duration -> timestamp", "timestamp, timestamp -> duration")(
    times.subtracted
)
_on_uints("_-_", operator.sub)

LIBRARY.function("_*_", "double, double -> double")(operator.mul)
_on_ints("_*_", operator.mul)
_on_uints("_*_", operator.mul)


def _quotient(left: int, right: int) -> int:
    if right == 0:
        raise CelError("division by zero")
    whole = abs(left) // abs(right)
    return whole if (left < 0) == (right < 0) else -whole


def _remainder(left: int, right: int) -> int:
    if right == 0:
        raise CelError("modulus by zero")
    return left - right * _quotient(left, right)


@LIBRARY.function("_/_", "double, double -> double")
def _divide(left: float, right: float) -> float:
    if right:
        return left / right
    return (
        math.nan if left == 0 or math.isnan(left) else math.copysign(math.inf, left) * math.copysign(1, right)
    )


for _name, _compute in (("_/_", _quotient), ("_%_", _remainder)):
    _on_ints(_name, _compute)
    _on_uints(_name, _compute)

LIBRARY.function("-_", "double -> double")(operator.neg)
LIBRARY.function("-_", "int -> int")(lambda value: values.checked_int(-value))
LIBRARY.function("!_", "bool -> bool")(operator.not_)


@LIBRARY.function("_in_", "T, list(T) -> bool", metered=True)
def _in_list(meter: values.Meter, wanted: values.Value, items: tuple[values.Value, ...]) -> bool:
    return any(values.same(meter, wanted, item) for item in items)


@LIBRARY.function("_in_", "K, map(K, V) -> bool")
def _in_map(wanted: values.Value, items: dict[values.Value, values.Value]) -> bool:
    if not items or (type(wanted) in values.UNHASHABLE and type(items) is not values.Built):
        return False
    return values.entry(items, wanted) is not values.MISSING


_ESCAPED = re.compile(r"\\Q.*?(?:\\E|$)|\\.", re.DOTALL)
"""A quoted part of a pattern, or an escape."""


@lru_cache(maxsize=256)
def compiled(pattern: str) -> Any:
    """The compiled pattern. Raises CelError."""
    if len(pattern) > MAX_REGEX_LENGTH:
        raise CelError(
            f"the regular expression has {len(pattern)} characters; use at most {MAX_REGEX_LENGTH}"
        )
    if any(escape == r"\C" for escape in _ESCAPED.findall(pattern)):
        raise CelError(rf"{pattern!r} is not a regular expression: Go does not have \C")
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
    "findAll", "string, string -> list(string)", "string, string, int -> list(string)", metered=True
)
def find_all(meter: values.Meter, text: str, pattern: str, most: int = -1) -> tuple[str, ...]:
    """All matches, or the first `most`; a negative number means all."""
    found: list[str] = []
    end = -1
    meter.charge(search_cost(text, pattern))
    for match in compiled(pattern).finditer(text):
        if len(found) == most:
            break
        meter.charge(1 + search_cost(text[match.end() :], pattern))  # the next search may read all the rest
        if match.end() > match.start() or match.start() != end:  # as Go: no empty match behind a match
            found.append(match.group())
        end = match.end()
    return tuple(found)


_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_DOUBLE = re.compile(
    r"[+-]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf|infinity)|nan", re.ASCII | re.IGNORECASE
)
_HEXADECIMAL = re.compile(
    r"[+-]?0x(?:[0-9a-f]+(?:\.[0-9a-f]*)?|\.[0-9a-f]+)p[+-]?[0-9]+", re.ASCII | re.IGNORECASE
)
_MISPLACED = re.compile(r"(?<![0-9])_|_(?![0-9])", re.ASCII)
_MISPLACED_HEXADECIMAL = re.compile(r"(?<![0-9a-fx])_|_(?![0-9a-f])", re.ASCII | re.IGNORECASE)
"""Underscores that Go does not allow: they stand between digits, or behind `0x`."""
_DIGITS = 40
"""Maximum digits: longer numbers never fit, and the limit keeps the conversion cheap."""
_TRUTHS = {"1": True, "t": True, "T": True, "true": True, "TRUE": True, "True": True} | {
    "0": False, "f": False, "F": False, "false": False, "FALSE": False, "False": False,
}  # fmt: skip

_SIZED = ("bytes -> int", "list(T) -> int", "map(K, V) -> int", "string -> int")
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


def _itself(value: values.Value) -> values.Value:
    return value


def _whole(text: str) -> int:
    if len(text) > _DIGITS or _INTEGER.fullmatch(text) is None:
        raise CelError(f"{text[:_DIGITS]!r} is not an integer")
    return int(text)


def _int_of_double(value: float) -> int:
    # The limits themselves are refused: as a double, 2**63 - 1 equals 2**63.
    if not values.INT_MIN < value < values.INT_MAX:
        raise CelError("integer overflow")
    return int(value)


def _uint_of_double(value: float) -> values.UInt:
    if not 0 <= value < 2**64:
        raise CelError("unsigned integer overflow")
    return values.UInt(int(value))


def _uint_of_string(text: str) -> values.UInt:
    value = _whole(text)
    if text[0] in "+-" or value > values.UINT_MAX:
        raise CelError(f"{text!r} is not an unsigned integer")
    return values.UInt(value)


def _double_of_string(text: str) -> float:
    hexadecimal = "x" in text[:3].lower()
    misplaced = (_MISPLACED_HEXADECIMAL if hexadecimal else _MISPLACED).search(text)
    plain = text if misplaced else text.replace("_", "")
    if _DOUBLE.fullmatch(plain):
        value = float(plain)
    elif _HEXADECIMAL.fullmatch(plain):
        value = _of_hexadecimal(plain)
    else:
        raise CelError(f"{text[:_DIGITS]!r} is not a number")
    if math.isinf(value) and "n" not in plain.lower():
        raise CelError(f"{text[:_DIGITS]!r} is beyond the largest double")
    return value


def _of_hexadecimal(text: str) -> float:
    try:
        return float.fromhex(text)
    except OverflowError:
        return math.inf


def string_of_bytes(value: bytes) -> str:
    """The text of bytes in UTF-8. Raises CelError for others."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise CelError("the bytes are not UTF-8") from None


def _bool_of_string(text: str) -> bool:
    try:
        return _TRUTHS[text]
    except KeyError:
        raise CelError(f"{text[:_DIGITS]!r} is not a bool") from None


def _no_duration(value: int) -> values.Value:
    raise CelError(f"{value} is not a duration such as 1h30m")


LIBRARY.function("type", "T -> type(T)")(lambda value: values.TypeValue(values.name_of(value)))
_DEVICE_FIELDS = ("driver", "attributes", "capacity", "allowMultipleAllocations")


@LIBRARY.function("dyn", "T -> dyn")
def _untyped(value: values.Value) -> values.Value:
    if type(value) is values.DeviceView:
        return {name: values.device_field(value, name) for name in _DEVICE_FIELDS}
    return value


Conversion = Callable[[Any], values.Value]
_CONVERSIONS: Mapping[str, Mapping[str, Conversion]] = {
    "bool": {"bool": _itself, "string": _bool_of_string},
    "bytes": {"bytes": _itself, "string": str.encode},
    "double": {
        "double": _itself,
        "int": float,
        "string": _double_of_string,
        "uint": lambda value: float(value.value),
    },
    "duration": {"duration": _itself, "int": _no_duration, "string": times.parse_duration},
    "int": {
        "int": _itself,
        "double": _int_of_double,
        "duration": lambda value: value.nanos,
        "string": lambda text: values.checked_int(_whole(text)),
        "timestamp": lambda value: value.nanos // times.SECOND,
        "uint": lambda value: values.checked_int(value.value),
    },
    "string": {
        "string": _itself,
        "bool": lambda value: "true" if value else "false",
        "bytes": string_of_bytes,
        "double": times.double_text,
        "duration": times.duration_text,
        "int": str,
        "timestamp": times.timestamp_text,
        "uint": lambda value: str(value.value),
    },
    "timestamp": {"timestamp": _itself, "int": times.timestamp_of, "string": times.parse_timestamp},
    "uint": {
        "uint": _itself,
        "double": _uint_of_double,
        "int": values.checked_uint,
        "string": _uint_of_string,
    },
}
for _to, _sources in _CONVERSIONS.items():
    for _from, _convert in _sources.items():
        _cost = (lambda value: len(value) // 10) if _from in ("string", "bytes") else None
        LIBRARY.function(_to, f"{_from} -> {_to}", cost=_cost)(_convert)

CONVERSIONS = frozenset({*_CONVERSIONS, "dyn", "type"})
"""Functions that Kubernetes calls while it compiles, where their argument is a constant."""
