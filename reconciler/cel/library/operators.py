"""Arithmetic and ordering. Equality, logic and indexing are part of the evaluator."""

import math
import operator
from collections.abc import Callable

from reconciler.cel.errors import CelError
from reconciler.cel.functions import Library
from reconciler.cel.values import Meter, Value, checked_int, checked_uint, map_key, number, same

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
