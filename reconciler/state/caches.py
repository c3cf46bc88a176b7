"""Small tools of the state: derived values that are freed with what they depend on, values that were used
lately, objects that are made when they are asked for, and copies of what may change.
"""

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from typing import Any, Generic, Protocol, Self, TypeVar, overload

import numpy as np

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

    __call__ = of
    """A function that was made a cache is called as before"""


def share(value: V) -> V:
    """The same value for the fork. Only for immutable values."""
    return value


def derived(derive: Callable[[O_contra], V]) -> Cache[O_contra, V]:
    """Makes a function a cache of its values, which are immutable: forks of the owner share them."""
    return Cache(derive, on_fork=share)


S = TypeVar("S")
T = TypeVar("T")


class Lazy(Sequence[T], Generic[S, T]):
    """Objects by what they are made of. Any thread may ask for them, if none of that changes."""

    def __init__(self, sources: Sequence[S], make: Callable[[S], T]) -> None:
        self._sources = sources
        self._make = make

    def __len__(self) -> int:
        return len(self._sources)

    @overload
    def __getitem__(self, at: int) -> T: ...
    @overload
    def __getitem__(self, at: slice) -> "Lazy[S, T]": ...
    def __getitem__(self, at: int | slice) -> "T | Lazy[S, T]":
        if isinstance(at, slice):
            return Lazy(self._sources[at], self._make)
        return self._make(self._sources[at])


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


K = TypeVar("K")


class Recent(Forkable, Generic[K, V]):
    """Values by key. Holds at least the `size` keys used last, and at most twice as many."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._young: dict[K, V] = {}
        self._old: dict[K, V] = {}

    def get(self, key: K) -> V | None:
        """The cached value; None if it was never put or is dropped."""
        found = self._young.get(key)
        if found is None and (found := self._old.get(key)) is not None:
            self.put(key, found)
        return found

    def put(self, key: K, value: V) -> V:
        """Cache and return a value."""
        if len(self._young) >= self._size and key not in self._young:
            self._old, self._young = self._young, {}
        self._young[key] = value
        return value

    def of(self, key: K, make: Callable[[], V]) -> V:
        """The cached value, made if there is none."""
        found = self.get(key)
        return self.put(key, make()) if found is None else found

    def clear(self) -> None:
        """Drop all."""
        self._young, self._old = {}, {}


class OfObjects(Generic[K, V]):
    """Values by the identity of an object, not by equality. Nothing is hashed."""

    def __init__(self, size: int) -> None:
        # An entry keeps its object alive, so no other object can have the same id.
        self._of: Recent[int, tuple[K, V]] = Recent(size)

    def of(self, key: K, make: Callable[[], V]) -> V:
        """The cached value of this object, made if there is none. The object must not change any more."""
        return self._of.of(id(key), lambda: (key, make()))[1]
