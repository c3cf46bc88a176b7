"""The variables of an expression, and the table of all functions."""

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from reconciler.cel.functions import Key, Overload
from reconciler.cel.library import (
    amounts,
    formats,
    formatting,
    lists,
    network,
    operators,
    optionals,
    regexes,
    standard,
    strings,
    times,
    urls,
)
from reconciler.cel.types import BOOL, DEVICE, DYN, Type

_LIBRARIES = (
    operators,
    standard,
    times,
    strings,
    formatting,
    optionals,
    regexes,
    lists,
    amounts,
    network,
    urls,
    formats,
)


def _functions() -> Mapping[Key, tuple[Overload, ...]]:
    table: dict[Key, tuple[Overload, ...]] = {}
    for library in _LIBRARIES:
        for key, overloads in library.LIBRARY.table.items():
            table[key] = table.get(key, ()) + tuple(overloads)
    return MappingProxyType(table)


FUNCTIONS = _functions()
PATTERNED = frozenset({"matches", "find", "findAll"})
"""Functions whose second argument is a regular expression."""
TYPE_NAMES = frozenset(
    {"bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type", "type", "optional_type"}
)


class Environment(Struct, frozen=True):
    """The variables of one kind of expression, and the allowed types of its result."""

    variables: tuple[tuple[str, Type], ...]
    results: tuple[Type, ...]


DEVICE_SELECTOR = Environment(variables=(("device", DEVICE),), results=(BOOL, DYN))
"""Device selectors: one variable, a bool result (CEL-1, CEL-7)."""
