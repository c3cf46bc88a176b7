"""Optional values."""

from reconciler.cel.errors import CelError
from reconciler.cel.functions import Library
from reconciler.cel.values import NOTHING, Option, UInt, Value

LIBRARY = Library()

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
