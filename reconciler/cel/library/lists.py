"""Lists, sets and optional values."""

from datetime import datetime, timedelta
from itertools import pairwise

from reconciler.cel.errors import MAX_INCLUDED, CelError
from reconciler.cel.library.standard import LIBRARY as OPERATORS
from reconciler.cel.types import Dispatch, Library
from reconciler.cel.values import NOTHING, Meter, Option, UInt, Value, name_of, number, same

LIBRARY = Library()
Items = tuple[Value, ...]

_ORDERED = ("int", "uint", "double", "bool", "string", "bytes", "duration", "timestamp")
_ORDERED_KINDS = frozenset({int, UInt, float, bool, str, bytes, timedelta, datetime})
_SUMMED = ("int", "uint", "double", "duration")
_add = Dispatch("sum", OPERATORS.table["_+_", False])


def _length(items: Items, *_: Value) -> int:
    return len(items)


def _comparable(items: Items) -> None:
    """Raise CelError unless all items have one ordered type."""
    kinds = set(map(type, items))
    if len(kinds) > 1 or not kinds <= _ORDERED_KINDS:
        raise CelError("the elements of the list cannot be compared with each other")


@LIBRARY.member("isSorted", *(f"list({t}) -> bool" for t in _ORDERED), cost=_length)
def is_sorted(items: Items) -> bool:
    """Whether no element is smaller than the one before."""
    _comparable(items)
    plain = [number(item) for item in items]
    return all(a <= b for a, b in pairwise(plain))


@LIBRARY.member("sum", *(f"list({t}) -> {t}" for t in _SUMMED), metered=True)
def total(meter: Meter, items: Items) -> Value:
    """The sum; 0 for an empty list."""
    result: Value = 0
    for index, item in enumerate(items):
        if type(item) not in (int, UInt, float, timedelta):
            raise CelError(f"no such overload: sum of {name_of(item)}")
        result = item if index == 0 else _add(meter, [result, item])
    return result


def _extreme(items: Items, largest: bool) -> Value:
    _comparable(items)
    if not items:
        raise CelError("min and max need at least one element")
    return (max if largest else min)(items, key=number)


LIBRARY.member("min", *(f"list({t}) -> {t}" for t in _ORDERED), cost=_length)(
    lambda items: _extreme(items, False)
)
LIBRARY.member("max", *(f"list({t}) -> {t}" for t in _ORDERED), cost=_length)(
    lambda items: _extreme(items, True)
)


def _position(meter: Meter, items: Items, order: range, wanted: Value) -> int:
    return next((index for index in order if same(meter, items[index], wanted)), -1)


@LIBRARY.member("indexOf", "list(T), T -> int", metered=True)
def index_of(meter: Meter, items: Items, wanted: Value) -> int:
    """The index of the first equal element, or -1."""
    return _position(meter, items, range(len(items)), wanted)


@LIBRARY.member("lastIndexOf", "list(T), T -> int", metered=True)
def last_index_of(meter: Meter, items: Items, wanted: Value) -> int:
    """The index of the last equal element, or -1."""
    return _position(meter, items, range(len(items) - 1, -1, -1), wanted)


@LIBRARY.member("slice", "list(T), int, int -> list(T)", cost=_length)
def part(items: Items, start: int, end: int) -> Items:
    """The elements from `start` to before `end`."""
    if not 0 <= start <= end <= len(items):
        raise CelError(f"cannot slice({start}, {end}), the list has {len(items)} elements")
    return items[start:end]


@LIBRARY.member(
    "flatten",
    "list(list(T)) -> list(T)",
    "list(dyn) -> list(dyn)",
    "list(dyn), int -> list(dyn)",
    metered=True,
)
def flatten(meter: Meter, items: Items, depth: int = 1) -> Items:
    """Lists inside the list replaced by their elements, `depth` levels down."""
    if depth < 0:
        raise CelError("the depth of flatten cannot be negative")
    flat: list[Value] = []
    for item in items:
        meter.charge(1)
        if type(item) is tuple and depth > 0:
            flat.extend(flatten(meter, item, depth - 1))
        else:
            flat.append(item)
    return tuple(flat)


def _sorting(items: Items, *_: Value) -> int:
    return len(items) * len(items).bit_length()


@LIBRARY.member("sort", *(f"list({t}) -> list({t})" for t in _ORDERED), cost=_sorting)
def sort(items: Items) -> Items:
    """In ascending order."""
    _comparable(items)
    return tuple(sorted(items, key=number))


def sort_by(items: Items, keys: Items) -> Items:
    """The items in ascending order of their keys."""
    _comparable(keys)
    order = sorted(range(len(items)), key=lambda index: number(keys[index]))
    return tuple(items[index] for index in order)


@LIBRARY.member("distinct", "list(T) -> list(T)", metered=True)
def distinct(meter: Meter, items: Items) -> Items:
    """Each element once, in order of first occurrence."""
    found: list[Value] = []
    for item in items:
        if not any(same(meter, item, other) for other in found):
            found.append(item)
    return tuple(found)


@LIBRARY.member("reverse", "list(T) -> list(T)", cost=_length)
def reverse(items: Items) -> Items:
    """The elements in reverse order."""
    return items[::-1]


@LIBRARY.function("lists.range", "int -> list(int)", cost=lambda count: max(count, 0))
def numbers(count: int) -> Items:
    """0, 1, ... before `count`."""
    return tuple(range(count))


@LIBRARY.function("sets.contains", "list(T), list(T) -> bool", metered=True)
def contains(meter: Meter, items: Items, wanted: Items) -> bool:
    """Whether the list contains every wanted element."""
    return all(any(same(meter, item, want) for item in items) for want in wanted)


@LIBRARY.function("sets.equivalent", "list(T), list(T) -> bool", metered=True)
def equivalent(meter: Meter, left: Items, right: Items) -> bool:
    """Whether each contains the other."""
    return contains(meter, left, right) and contains(meter, right, left)


@LIBRARY.function("sets.intersects", "list(T), list(T) -> bool", metered=True)
def intersects(meter: Meter, left: Items, right: Items) -> bool:
    """Whether the lists have a common element."""
    return any(same(meter, a, b) for a in left for b in right)


@LIBRARY.member("includes", "dyn, dyn -> bool", metered=True)
def includes(meter: Meter, target: Value, wanted: Value) -> bool:
    """Whether a list contains the value, or a single value equals it (CEL-17)."""
    if type(target) is not tuple:
        return same(meter, target, wanted)
    for index, item in enumerate(target):
        if index == MAX_INCLUDED:
            raise CelError(
                f"includes takes lists of at most {MAX_INCLUDED} elements; this list has {len(target)}"
            )
        if same(meter, item, wanted):
            return True
    return False


LIBRARY.function("optional.of", "T -> optional(T)")(lambda value: Option(True, value))
LIBRARY.function("optional.none", " -> optional(T)")(lambda: NOTHING)
LIBRARY.member("hasValue", "optional(T) -> bool")(lambda option: option.present)


@LIBRARY.function("optional.ofNonZeroValue", "T -> optional(T)")
def of_non_zero_value(value: Value) -> Option:
    """Absent for the zero of a type: 0, "", false, null, and empty lists and maps."""
    zero = value.value == 0 if type(value) is UInt else value is None or value in (0, "", b"", (), {})
    return NOTHING if zero else Option(True, value)


@LIBRARY.member("value", "optional(T) -> T")
def value_of(option: Option) -> Value:
    """The value. Raises CelError if absent."""
    if not option.present:
        raise CelError("optional.none() has no value")
    return option.value


# The evaluator skips the second argument of these two if the first has a value.
LIBRARY.member("or", "optional(T), optional(T) -> optional(T)")(
    lambda option, other: option if option.present else other
)
LIBRARY.member("orValue", "optional(T), T -> T")(
    lambda option, other: option.value if option.present else other
)
