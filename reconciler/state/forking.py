"""Independent copies of mutable state: what may change is copied, what never changes is shared.

Dicts, lists, sets and writable arrays are copied wherever a `Forkable` or a dict holds them. Everything
else is immutable, also what a list holds.
"""

from collections.abc import Iterable
from copy import copy
from typing import Any, Self, TypeVar

import numpy as np

T = TypeVar("T")


class Forkable:
    """State of which a fork is changed independently, such as in another thread."""

    def fork(self) -> Self:
        """The same state, changed independently from now on."""
        return forked(self, {})


_CONTAINERS = (dict, list, set, np.ndarray)


def forked(thing: T, made: dict[int, Any]) -> T:
    """The fork of a value. `made` has what is forked already, by the id of its original."""
    known: T | None = made.get(id(thing))
    if known is not None:
        return known
    found: Any = thing
    if isinstance(thing, Forkable):
        found = made[id(thing)] = copy(thing)
        for name, value in vars(thing).items():
            setattr(found, name, forked(value, made))
    elif isinstance(thing, np.ndarray):
        found = thing.copy() if thing.flags.writeable else thing
    elif isinstance(thing, _CONTAINERS):
        found = made[id(thing)] = thing.copy()
        if isinstance(thing, dict) and isinstance(_first(thing.values()), (*_CONTAINERS, Forkable)):
            for key, value in thing.items():
                found[key] = forked(value, made) if _is_deep(value) else value.copy()
    return found


def _is_deep(value: Any) -> bool:
    """Whether more than the value itself has to be copied, or not even that."""
    if isinstance(value, dict):
        return isinstance(_first(value.values()), (*_CONTAINERS, Forkable))
    return not isinstance(value, list | set)


def _first(values: Iterable[Any]) -> Any:
    return next(iter(values), None)
