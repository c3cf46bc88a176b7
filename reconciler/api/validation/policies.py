"""Request policies of consumable capacity (DEV-5)."""

from itertools import pairwise

from reconciler.api.objects.quantity import Quantity
from reconciler.api.validation.amounts import quantity
from reconciler.api.validation.fields import Field

MAX_VALUES = 10


def check_policy(policy: Field, capacity: Quantity) -> None:
    """Check the request policy of a capacity."""
    values, valid_range = policy["validValues"], policy["validRange"]
    if values.present and valid_range.present:
        policy.value_invalid("set at most one of `validValues` and `validRange`")
        return
    default = quantity(policy["default"])
    if (values.present or valid_range.present) and default is None:
        policy["default"].required("required with `validValues` and `validRange`")
    if values.present:
        _values(policy, capacity, default)
    elif valid_range.present:
        _range(policy, capacity, default)
    elif default is not None and default > capacity:
        policy["default"].invalid("exceeds the capacity")


def _values(policy: Field, capacity: Quantity, default: Quantity | None) -> None:
    field = policy["validValues"]
    values = [value for value in (quantity(item) for item in field.items()) if value is not None]
    field.at_most(MAX_VALUES)
    if any(low.integer >= high.integer for low, high in pairwise(values)):
        field.invalid("values must be ascending and distinct")
    if any(value > capacity for value in values):
        field.invalid("a value exceeds the capacity")
    if default is not None and default not in values:
        policy["default"].invalid("must be one of the valid values")


def _range(policy: Field, capacity: Quantity, default: Quantity | None) -> None:
    field = policy["validRange"]
    low, high, step = quantity(field["min"]), quantity(field["max"]), quantity(field["step"])
    if low is None:
        field["min"].required()
        return
    if low > capacity:
        field["min"].invalid("exceeds the capacity")
    if high is not None and not low <= high <= capacity:
        field["max"].invalid("must be between `min` and the capacity")
    if default is not None and (default < low or (high is not None and default > high)):
        policy["default"].invalid("must be between `min` and `max`")
    if step is None:
        return
    if step.nanos <= 0:
        field["step"].invalid("must be positive")
    elif low + step > capacity:
        field["step"].invalid("`min` plus one step exceeds the capacity")
    else:
        for place, value in ((policy["default"], default), (field["max"], high)):
            if value is not None and (value.nanos - low.nanos) % step.nanos:
                place.invalid("must be `min` plus a whole number of steps")
