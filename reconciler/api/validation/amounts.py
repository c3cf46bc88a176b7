"""Quantities in plain objects: parse, and convert to canonical form (V-7 to V-10)."""

from functools import lru_cache
from typing import Any

from reconciler.api.objects.quantity import Quantity
from reconciler.api.validation.fields import Field, WrongType


def quantity(field: Field) -> Quantity | None:
    """The quantity at a field; None if absent."""
    if field.value is None:
        return None
    try:
        return Quantity.parse(_text(field.value))
    except (ValueError, TypeError) as exc:
        raise WrongType(f"{field.path}: {exc}") from exc


def canonical(value: Any) -> Any:
    """The amount as the API prints it. An invalid amount is unchanged: validation reports it."""
    if isinstance(value, str):
        return _canonical(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _canonical(_text(value))
    return value


def canonical_values(amounts: Any) -> None:
    """Convert every value of a map of quantities in place."""
    if isinstance(amounts, dict):
        for key, value in amounts.items():
            amounts[key] = canonical(value)


@lru_cache(maxsize=65536)
def _canonical(text: str) -> str:
    try:
        return str(Quantity.parse(text))
    except ValueError:
        return text


def _text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise TypeError("a quantity is a string or a number")
    return value.strip() if isinstance(value, str) else repr(value)
