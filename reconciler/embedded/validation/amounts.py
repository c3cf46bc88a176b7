"""Quantities inside plain objects: read, and put in canonical form (V-7 to V-10)."""

from functools import lru_cache
from typing import Any

from reconciler.embedded.fields import Field, WrongType
from reconciler.objects.quantity import Quantity


def quantity(field: Field) -> Quantity | None:
    """The quantity at a field, None where there is none."""
    if field.value is None:
        return None
    try:
        return Quantity.parse(_text(field.value))
    except (ValueError, TypeError) as exc:
        raise WrongType(f"{field.path}: {exc}") from exc


def canonical(value: Any) -> Any:
    """The same amount as the API prints it. What cannot be read stays as it is: validation names it."""
    if isinstance(value, str):
        return _canonical(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _canonical(_text(value))
    return value


def canonical_values(amounts: Any) -> None:
    """Rewrite every value of a map of quantities in place."""
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
