"""A bounded cache of recently used values that needs no list of uses."""

from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Recent(Generic[K, V]):
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
        if len(self._young) >= self._size:
            self._old, self._young = self._young, {}
        self._young[key] = value
        return value


class OfObjects(Generic[K, V]):
    """Values by the identity of an object, not by equality. Nothing is hashed."""

    def __init__(self, size: int) -> None:
        self._size = size
        # An entry keeps its object alive, so no other object can have the same id.
        self._young: dict[int, tuple[K, V]] = {}
        self._old: dict[int, tuple[K, V]] = {}

    def get(self, key: K) -> V | None:
        """The cached value of this object."""
        entry = self._young.get(id(key))
        if entry is None:
            entry = self._old.get(id(key))
            if entry is None:
                return None
            self.put(key, entry[1])
        return entry[1]

    def put(self, key: K, value: V) -> V:
        """Cache and return a value. The object must not change any more."""
        if len(self._young) >= self._size:
            self._old, self._young = self._young, {}
        self._young[id(key)] = (key, value)
        return value
