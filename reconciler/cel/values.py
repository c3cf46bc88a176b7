"""CEL values as Python values, their equality, and one device as an expression sees it.

int, float, str, bytes, bool and None are themselves; a list is a tuple, a map is a dict.
A bool is never an int here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from datetime import datetime, timedelta
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface
from typing import Any, Final, Protocol
from urllib.parse import SplitResult

from msgspec import Struct, field

from reconciler.api.objects.quantity import Quantity
from reconciler.api.objects.semver import Semver
from reconciler.cel.errors import CelError


@dataclass(frozen=True, slots=True)
class Url:
    """An absolute URL or an absolute path."""

    text: str
    parts: SplitResult = dataclass_field(compare=False)


@dataclass(frozen=True, slots=True)
class Format:
    """A named format; `problems` returns the errors of a text."""

    name: str
    problems: Callable[[str], tuple[str, ...]] = dataclass_field(compare=False)


Value = Any
"""One of the types above, UInt, Option, TypeValue, or an opaque value of a library."""

INT_MIN, INT_MAX, UINT_MAX = -(2**63), 2**63 - 1, 2**64 - 1


class Meter(Protocol):
    """Counts the steps of an evaluation."""

    def charge(self, steps: int) -> None:
        """Count `steps`. Raises Exhausted beyond the limit."""


class UInt(Struct, frozen=True, eq=False):
    """An unsigned integer. Equal to the same number of another numeric type."""

    value: int

    def __eq__(self, other: object) -> bool:
        if type(other) is UInt:
            return self.value == other.value
        return type(other) in (int, float) and self.value == other

    def __hash__(self) -> int:
        return hash(self.value)


class Option(Struct, frozen=True):
    """A value that may be absent."""

    present: bool
    value: Value = None


NOTHING: Final = Option(False)


class TypeValue(Struct, frozen=True):
    """A type as a value: the result of `type(x)`."""

    name: str


class BoolKey(Struct, frozen=True):
    """A bool as the key of a map: Python's True would equal the key 1."""

    value: bool


class Domains(dict[str, Mapping[str, Value]]):
    """Attributes or capacity by domain. An unknown domain is an empty map (CEL-4)."""


NAMES: Final[dict[type, str]] = {
    bool: "bool",
    int: "int",
    UInt: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    tuple: "list",
    dict: "map",
    Domains: "map",
    type(None): "null_type",
    timedelta: "google.protobuf.Duration",
    datetime: "google.protobuf.Timestamp",
    Option: "optional_type",
    TypeValue: "type",
    Semver: "kubernetes.Semver",
    Quantity: "kubernetes.Quantity",
    IPv4Address: "net.IP",
    IPv6Address: "net.IP",
    IPv4Interface: "net.CIDR",
    IPv6Interface: "net.CIDR",
    Url: "kubernetes.URL",
    Format: "kubernetes.NamedFormat",
}


def name_of(value: Value) -> str:
    """The name of a value's type, for messages."""
    return NAMES.get(type(value)) or type(value).__name__


def truth(value: Value) -> bool:
    """`value` as a bool. Raises CelError for any other type."""
    if value is True or value is False:
        return bool(value)
    raise CelError(f"no such overload: expected bool, got {name_of(value)}")


def number(value: Value) -> Value:
    """The Python number that compares like a numeric value."""
    return value.value if type(value) is UInt else value


def checked_int(value: int) -> int:
    """`value` if it fits in 64 bits. Raises CelError."""
    if not INT_MIN <= value <= INT_MAX:
        raise CelError("integer overflow")
    return value


def checked_uint(value: int) -> UInt:
    """`value` as an unsigned integer if it fits in 64 bits. Raises CelError."""
    if not 0 <= value <= UINT_MAX:
        raise CelError("unsigned integer overflow")
    return UInt(value)


def map_key(value: Value) -> Any:
    """The dict key of a value. Raises CelError for types that cannot be keys."""
    kind = type(value)
    if kind is bool:
        return BoolKey(value)
    if kind in (str, int, UInt):
        return value
    if kind is float:
        return int(value) if value.is_integer() else value
    raise CelError(f"unsupported key type {name_of(value)}")


def key_value(key: Any) -> Value:
    """The value of a dict key."""
    return key.value if type(key) is BoolKey else key


_NUMBERS = frozenset({int, float, UInt})
_OPAQUE = frozenset({Semver, Quantity})


def equal(meter: Meter, left: Value, right: Value) -> bool:
    """Typed equality (CEL-9). Raises CelError if the left side is opaque and the right has another type."""
    meter.charge(1)
    kind, other = type(left), type(right)
    if left is None or right is None:
        return left is right
    if kind in _NUMBERS:
        return other in _NUMBERS and bool(left == right)
    if kind in _OPAQUE and other is not kind:
        raise CelError(f"no such overload: {name_of(left)} == {name_of(right)}")
    if isinstance(left, dict | tuple):
        meter.charge(len(left))
    if isinstance(left, dict):
        return isinstance(right, dict) and _equal_maps(meter, left, right)
    if kind is not other:
        return False
    if kind is tuple:
        return len(left) == len(right) and all(equal(meter, *pair) for pair in zip(left, right, strict=True))
    if kind is Option:
        return left.present == right.present and equal(meter, left.value, right.value)
    if kind is str or kind is bytes:
        meter.charge(min(len(left), len(right)) // 10)
    return bool(left == right)


def _equal_maps(meter: Meter, left: Mapping[Any, Value], right: Mapping[Any, Value]) -> bool:
    if len(left) != len(right):
        return False
    return all(key in right and equal(meter, value, right[key]) for key, value in left.items())


def same(meter: Meter, left: Value, right: Value) -> bool:
    """Equality where an error counts as not equal: for `in` and `includes` (CEL-11, CEL-17)."""
    try:
        return equal(meter, left, right)
    except CelError:
        return False


class DeviceView(Struct, frozen=True):
    """A device with attributes and capacity by domain and id. No domain is empty."""

    driver: str
    attributes: Mapping[str, dict[str, Value]] = field(default_factory=dict)
    """Values are int, bool, str, Semver, or tuples of one of them."""
    capacity: Mapping[str, dict[str, Quantity]] = field(default_factory=dict)
    shared: bool = False
    """allowMultipleAllocations."""
    unreadable: str = ""
    """Why no expression can be evaluated on this device (CEL-6); empty if it can."""
