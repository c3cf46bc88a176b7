"""Quantities and versions."""

from reconciler.api.objects.quantity import NANO, Quantity
from reconciler.api.objects.semver import Semver
from reconciler.cel.errors import CelError
from reconciler.cel.types import Library
from reconciler.cel.values import INT_MAX, INT_MIN, Computed, Value

LIBRARY = Library()

_BINARY = ("Quantity, Quantity -> {}", "Semver, Semver -> {}")


@LIBRARY.function("quantity", "string -> Quantity")
def quantity(text: str) -> Quantity:
    """Parse a quantity."""
    try:
        return Quantity.parse(text)
    except ValueError as exc:
        raise CelError(str(exc)) from None


@LIBRARY.function("isQuantity", "string -> bool")
def is_quantity(text: str) -> bool:
    """Whether `quantity` can parse it."""
    try:
        Quantity.parse(text)
    except ValueError:
        return False
    return True


@LIBRARY.function("semver", "string -> Semver", "string, bool -> Semver")
def semver(text: str, normalize: bool = False) -> Semver:
    """Parse a version, leniently with `normalize` (CEL-16)."""
    try:
        return Semver.parse_leniently(text) if normalize else Semver.parse(text)
    except ValueError as exc:
        raise CelError(str(exc)) from None


@LIBRARY.function("isSemver", "string -> bool", "string, bool -> bool")
def is_semver(text: str, normalize: bool = False) -> bool:
    """Whether `semver` can parse it."""
    try:
        semver(text, normalize)
    except CelError:
        return False
    return True


def _compared(a: Value, b: Value) -> int:
    left, right = (each.nanos if isinstance(each, Quantity) else each for each in (a, b))
    return int(left > right) - int(left < right)


LIBRARY.member("isGreaterThan", *(form.format("bool") for form in _BINARY))(lambda a, b: _compared(a, b) > 0)
LIBRARY.member("isLessThan", *(form.format("bool") for form in _BINARY))(lambda a, b: _compared(a, b) < 0)
LIBRARY.member("compareTo", *(form.format("int") for form in _BINARY))(_compared)
LIBRARY.member("major", "Semver -> int")(lambda version: version.major)
LIBRARY.member("minor", "Semver -> int")(lambda version: version.minor)
LIBRARY.member("patch", "Semver -> int")(lambda version: version.patch)

LIBRARY.member("add", "Quantity, Quantity -> Quantity")(lambda a, b: Computed(a.nanos + b.nanos, a.format))
LIBRARY.member("sub", "Quantity, Quantity -> Quantity")(lambda a, b: Computed(a.nanos - b.nanos, a.format))
LIBRARY.member("add", "Quantity, int -> Quantity")(lambda a, n: Computed(a.nanos + n * NANO, a.format))
LIBRARY.member("sub", "Quantity, int -> Quantity")(lambda a, n: Computed(a.nanos - n * NANO, a.format))
LIBRARY.member("asApproximateFloat", "Quantity -> double")(lambda a: a.nanos / NANO)
LIBRARY.function("sign", "Quantity -> int")(lambda a: (a.nanos > 0) - (a.nanos < 0))


@LIBRARY.member("isInteger", "Quantity -> bool")
def is_integer(amount: Quantity) -> bool:
    """Whether it is an integer that fits in 64 bits (CEL-13, as recommended there)."""
    whole, part = divmod(amount.nanos, NANO)
    return part == 0 and INT_MIN <= whole <= INT_MAX


@LIBRARY.member("asInteger", "Quantity -> int")
def as_integer(amount: Quantity) -> int:
    """The integer value. Raises CelError if it is not one."""
    if not is_integer(amount):
        raise CelError(f"{amount} is not an integer of 64 bits")
    return amount.nanos // NANO
