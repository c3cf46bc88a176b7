"""Plain JSON whose shape is not known yet: what is no object, or no list, is taken for an empty one."""

from collections.abc import Mapping
from typing import Any

from reconciler.errors import Malformed

Raw = Mapping[str, Any]


def mapping(value: Any) -> Raw:
    """`value` if it is an object."""
    # Nearly all are dicts, and asking for the abstract class takes ten times as long.
    return value if value.__class__ is dict or isinstance(value, Mapping) else {}


def mappings(value: Any) -> list[Raw]:
    """The entries of a list, each as an object."""
    return [mapping(entry) for entry in value] if isinstance(value, list | tuple) else []


def references(value: Any, subject: str, field: str) -> list[str]:
    """The names in a list of references, written as `{name: x}` or as `x`. Raises Malformed otherwise."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise Malformed(subject, field, "must be a list")
    names: list[str] = []
    for number, entry in enumerate(value):
        name = entry.get("name") if isinstance(entry, Mapping) else entry
        if not isinstance(name, str) or not name:
            raise Malformed(subject, f"{field}[{number}].name", "must be a string")
        names.append(name)
    return names
