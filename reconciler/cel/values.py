"""CEL values as Python values, their equality, and one device as an expression sees it.

int, float, str, bytes, bool and None are themselves; a list is a tuple, a map is a dict.
A bool is never an int here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface
from typing import Any, Final, Protocol

from msgspec import Struct, field

from reconciler.api.objects.quantity import Quantity
from reconciler.api.objects.semver import Semver
from reconciler.cel.errors import CelError, Fatal


@dataclass(frozen=True, slots=True)
class Url:
    """An absolute URL or an absolute path."""

    text: str
    scheme: str = dataclass_field(compare=False)
    host: str = dataclass_field(compare=False)
    """With its port."""
    path: str = dataclass_field(compare=False)
    """As written."""
    query: str = dataclass_field(compare=False)


@dataclass(frozen=True, slots=True)
class Format:
    """A named format; `problems` returns the errors of a text."""

    name: str
    problems: Callable[[str], tuple[str, ...]] = dataclass_field(compare=False)


class Duration(Struct, frozen=True, order=True):
    """A span of time."""

    nanos: int
    """Billionths of a second, of 64 bits."""


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """A moment in the years 1 to 9999."""

    nanos: int
    """Billionths of a second since 1970."""
    offset: int = dataclass_field(default=0, compare=False)
    """Seconds east of UTC of the time zone that it was written in."""


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


class Key(Struct, frozen=True):
    """The key of a map that Python would take for another: 1u and true for 1."""

    kind: type
    value: Value
    offset: int = 0
    """Of a timestamp: the same moment in another zone is another key."""


class OwnKey:
    """A list or an object as the key of a map: equal only to itself."""

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return type(other) is OwnKey and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


class Computed(Quantity):
    """The result of `add` or `sub`: on the right side of `==` it is of another type (CEL-12)."""

    __slots__ = ()


class Built(dict[Any, Value]):
    """A map that an expression makes: Go hashes what it looks up there. A device's maps only have texts."""


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
    Built: "map",
    Domains: "map",
    type(None): "null_type",
    Duration: "google.protobuf.Duration",
    Timestamp: "google.protobuf.Timestamp",
    Option: "optional_type",
    TypeValue: "type",
    Semver: "kubernetes.Semver",
    Quantity: "kubernetes.Quantity",
    Computed: "kubernetes.Quantity",
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


MISSING: Final[Any] = object()
UNHASHABLE = frozenset({Semver, bytes, Format})
"""Types that Go cannot look up."""
_ADDRESSES: Final[dict[type, type]] = {IPv4Address: IPv6Address, IPv6Address: IPv4Address}
_PREFIXES: Final[dict[type, type]] = {IPv4Interface: IPv6Interface, IPv6Interface: IPv4Interface}
_KEYS_BY_VALUE = frozenset({bool, float, Duration, Timestamp, TypeValue, *_ADDRESSES, *_PREFIXES})


def map_key(value: Value) -> Any:
    """The dict key of a value, as Go compares keys. Raises Fatal for what it cannot."""
    kind = type(value)
    if kind in (str, int) or value is None:
        return value
    if kind is UInt:
        return Key(UInt, value.value)
    if kind in _KEYS_BY_VALUE:
        return Key(kind, value, value.offset if kind is Timestamp else 0)
    if kind in UNHASHABLE:
        raise Fatal(f"{name_of(value)} cannot be the key of a map")
    return OwnKey(value)


def key_value(key: Any) -> Value:
    """The value of a dict key."""
    if type(key) is Key:
        return UInt(key.value) if key.kind is UInt else key.value
    return key.value if type(key) is OwnKey else key


def entry(items: Mapping[Any, Value], wanted: Value) -> Value:
    """The element of a map, or MISSING. Whole numbers also find keys of the other integer types."""
    kind, number = type(wanted), None
    found = items.get(map_key(wanted), MISSING)
    if found is not MISSING or kind not in NUMBERS:
        return found
    if kind is float and wanted.is_integer():
        number = int(wanted)
        found = items.get(number, MISSING)
    elif kind is not float:
        number = wanted.value if kind is UInt else wanted
    if found is MISSING and number is not None:
        found = items.get(number if kind is UInt else Key(UInt, number), MISSING)
    return found


NUMBERS = frozenset({int, float, UInt})
OPAQUE = frozenset({Semver, Quantity, Computed, Format, Url, *_ADDRESSES, *_PREFIXES})
"""Types that only compare with their own."""
_SAME_TYPE: Final[Mapping[type, type]] = {**_ADDRESSES, **_PREFIXES, Computed: Quantity}
"""Of a left side: the other Python type of the same type."""


def equal_numbers(left: Value, right: Value) -> bool:
    """Equality of numbers. Beside a double, an integer becomes a double, as in Go."""
    left, right = number(left), number(right)
    if type(left) is float or type(right) is float:
        return float(left) == float(right)
    return bool(left == right)


def equal(meter: Meter, left: Value, right: Value) -> bool:
    """Typed equality (CEL-9). Raises CelError if the left side is opaque and the right has another type."""
    meter.charge(1)
    kind, other = type(left), type(right)
    if left is None or right is None:
        return left is right
    if kind in NUMBERS:
        return other in NUMBERS and equal_numbers(left, right)
    alike = (other is kind and kind is not Computed) or other is _SAME_TYPE.get(kind)
    if kind in OPAQUE and not alike:
        raise CelError(f"no such overload: {name_of(left)} == {name_of(right)}")
    if isinstance(left, dict | tuple):
        meter.charge(len(left))
    if isinstance(left, dict):
        return isinstance(right, dict) and _equal_maps(meter, left, right)
    if kind is Computed:
        return bool(left.nanos == right.nanos)
    if kind is not other:
        return False
    if kind is tuple:
        pairs = zip(left, right, strict=False)
        return len(left) == len(right) and all(_not_unequal(meter, *pair) for pair in pairs)
    if kind is Option:
        return left.present == right.present and equal(meter, left.value, right.value)
    if kind is Url:
        left, right = left.text, right.text
    if kind in (str, bytes, Url):
        meter.charge(min(len(left), len(right)) // 10)
    return bool(left == right)


def _not_unequal(meter: Meter, left: Value, right: Value) -> bool:
    """Whether elements do not differ: in lists and maps, what cannot be compared counts as equal."""
    try:
        return equal(meter, left, right)
    except CelError:
        return True


def _equal_maps(meter: Meter, left: Mapping[Any, Value], right: Mapping[Any, Value]) -> bool:
    if len(left) != len(right):
        return False
    for key, value in left.items():
        found = entry(right, key_value(key))
        if found is MISSING or not _not_unequal(meter, value, found):
            return False
    return True


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


NAMES[DeviceView] = "map"


def device_field(device: DeviceView, name: Value) -> Value:
    """A field of the device, or MISSING."""
    match name:
        case "driver":
            return device.driver
        case "attributes":
            return Domains(device.attributes)
        case "capacity":
            return Domains(device.capacity)
        case "allowMultipleAllocations":
            return device.shared
    return MISSING
