"""Lists, sets and optional values."""

from collections.abc import Callable
from functools import cmp_to_key
from itertools import pairwise

from reconciler.cel.errors import MAX_INCLUDED, CelError
from reconciler.cel.library.standard import LIBRARY as OPERATORS
from reconciler.cel.library.standard import comparable
from reconciler.cel.library.times import parse_timestamp
from reconciler.cel.types import Dispatch, Library
from reconciler.cel.values import NOTHING, Duration, Meter, Option, Timestamp, UInt, Value, name_of, same

LIBRARY = Library()
Items = tuple[Value, ...]

ORDERED = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
_ORDERED_KINDS = frozenset({int, UInt, float, bool, str, bytes, Duration, Timestamp})
_NUMBERS = frozenset({int, UInt, float})
_add = Dispatch("sum", OPERATORS.table["_+_", False])


def _length(items: Items, *_: Value) -> int:
    return len(items)


def _is_less(left: Value, right: Value) -> bool:
    """Whether one is smaller than the other; False if they cannot be compared."""
    if type(left) is not type(right) and not {type(left), type(right)} <= _NUMBERS:
        return False
    try:
        a, b = comparable(left, right)
    except CelError:
        return False
    return bool(a < b)


def _each_ordered(items: Items) -> None:
    for item in items:
        if type(item) not in _ORDERED_KINDS:
            raise CelError(f"no such overload: {name_of(item)} cannot be ordered")


@LIBRARY.member("isSorted", *(f"list({t}) -> bool" for t in ORDERED), cost=_length)
def is_sorted(items: Items) -> bool:
    """Whether no element is smaller than the one before. Elements of different types are in any order."""
    for before, item in pairwise(items):
        _each_ordered((before, item))
        if _is_less(item, before):
            return False
    _each_ordered(items[-1:])
    return True


def _total(zero: Value) -> Callable[[Meter, Items], Value]:
    def total(meter: Meter, items: Items) -> Value:
        result = zero
        for item in items:
            result = _add(meter, [result, item])
        return result

    return total


for _type, _zero in (("int", 0), ("uint", UInt(0)), ("double", 0.0), ("duration", Duration(0))):
    LIBRARY.member("sum", f"list({_type}) -> {_type}", metered=True)(_total(_zero))


def _extreme(items: Items, is_better: Callable[[Value, Value], bool]) -> Value:
    _each_ordered(items)
    if not items:
        raise CelError("min and max need at least one element")
    best = items[0]
    for item in items[1:]:
        if is_better(item, best):
            best = item
    return best


LIBRARY.member("max", *(f"list({t}) -> {t}" for t in ORDERED), cost=_length)(
    lambda items: _extreme(items, lambda item, best: _is_less(best, item))
)
LIBRARY.member("min", *(f"list({t}) -> {t}" for t in ORDERED), cost=_length)(
    lambda items: _extreme(items, _is_less)
)


def _position(meter: Meter, items: Items, order: range, wanted: Value) -> int:
    """The first index of an equal element, or -1."""
    return next((index for index in order if same(meter, items[index], wanted)), -1)


LIBRARY.member("indexOf", "list(T), T -> int", metered=True)(
    lambda meter, items, wanted: _position(meter, items, range(len(items)), wanted)
)
LIBRARY.member("lastIndexOf", "list(T), T -> int", metered=True)(
    lambda meter, items, wanted: _position(meter, items, range(len(items) - 1, -1, -1), wanted)
)


@LIBRARY.member("slice", "list(T), int, int -> list(T)", cost=_length)
def part(items: Items, start: int, end: int) -> Items:
    """The elements from `start` to before `end`."""
    if not 0 <= start <= end <= len(items):
        raise CelError(f"cannot slice({start}, {end}), the list has {len(items)} elements")
    return items[start:end]


@LIBRARY.member("flatten", "list(list(T)) -> list(T)", "list(dyn), int -> list(dyn)", metered=True)
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


@LIBRARY.member("sort", *(f"list({t}) -> list({t})" for t in ORDERED), cost=_sorting)
def sort(items: Items) -> Items:
    """In ascending order."""
    return sort_by(items, items)


_in_order = cmp_to_key(lambda a, b: _is_less(b, a) - _is_less(a, b))


def sort_by(items: Items, keys: Items) -> Items:
    """The items in ascending order of their keys, which have one type. Raises CelError."""
    kinds = set(map(type, keys))
    if len(kinds) > 1 or not kinds <= _ORDERED_KINDS:
        raise CelError("the elements of the list cannot be compared with each other")
    ranks = [_in_order(key) for key in keys]
    return tuple(items[index] for index in sorted(range(len(items)), key=ranks.__getitem__))


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
    return all(any(same(meter, want, item) for item in items) for want in wanted)


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


_ZEROS = (0, UInt(0), 0.0, False, "", b"", (), None, Duration(0), parse_timestamp("0001-01-01T00:00:00Z"))


@LIBRARY.function("optional.ofNonZeroValue", "T -> optional(T)")
def of_non_zero_value(value: Value) -> Option:
    """Absent for the zero of a type, such as 0, "", false, null, no time, and empty lists and maps."""
    zero = (
        not value if isinstance(value, dict) else any(type(value) is type(z) and value == z for z in _ZEROS)
    )
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
LIBRARY.member("first", "list(T) -> optional(T)")(lambda items: Option(True, items[0]) if items else NOTHING)
LIBRARY.member("last", "list(T) -> optional(T)")(lambda items: Option(True, items[-1]) if items else NOTHING)


@LIBRARY.function("optional.unwrap", "list(optional(T)) -> list(T)", cost=_length)
@LIBRARY.member("unwrapOpt", "list(optional(T)) -> list(T)", cost=_length)
def unwrap(items: Items) -> Items:
    """The values of the elements that are present. Raises CelError for what is not optional."""
    if not all(type(item) is Option for item in items):
        raise CelError("unwrap takes a list of optional values")
    return tuple(item.value for item in items if item.present)
