"""Derived values, cached on the part of a snapshot that they depend on and freed with it.

A fleet, a topology and a view own one `Caches` each. The module that derives a value declares a `Cache` for
it, so that this package does not need to know the types of the packages above it.
"""

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

V = TypeVar("V")


class Caches:
    """The values derived from one owner. No value refers to the owner, so reference counting frees both."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: dict[Cache[Any, Any], Any] = {}

    def fork(self) -> "Caches":
        """The caches of a copy of the owner, for a fork or another thread. `Cache.on_fork` fills them."""
        caches = Caches()
        for cache, value in list(self._values.items()):  # copied in one step: another thread may add values
            if cache.on_fork is not None:
                caches._values[cache] = cache.on_fork(value)
        return caches


class Owner(Protocol):
    """An immutable object. Values derived from it stay valid as long as it exists."""

    @property
    def caches(self) -> Caches:
        """The values derived from it so far."""


O_contra = TypeVar("O_contra", bound=Owner, contravariant=True)


class Cache(Generic[O_contra, V]):
    """One kind of derived value. It is computed on first use and kept in the owner's caches."""

    __slots__ = ("_derive", "on_fork")

    def __init__(self, derive: Callable[[O_contra], V], *, on_fork: Callable[[V], V] | None = None) -> None:
        """`on_fork` returns the value that a fork of the owner starts with.

        Use `share` for immutable values and `dict.copy` for dicts of such values. Without `on_fork` the fork
        derives its own value; this is required where decisions change the value.
        """
        self._derive = derive
        self.on_fork = on_fork

    def of(self, owner: O_contra) -> V:
        """The value of an owner."""
        values = owner.caches._values
        try:
            found: V = values[self]
        except KeyError:
            pass
        else:
            return found
        # If two threads derive the value at once, both use the one that was stored first.
        return values.setdefault(self, self._derive(owner))


def share(value: V) -> V:
    """The same value for the fork. Only for immutable values."""
    return value
