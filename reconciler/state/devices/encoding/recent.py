"""What was worked out lately, kept for as long as it is asked for: bounded, and without a list of uses."""

from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Recent(Generic[K, V]):
    """Values by key. Holds the `size` keys used last, and at most twice as many."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._young: dict[K, V] = {}
        self._old: dict[K, V] = {}

    def get(self, key: K) -> V | None:
        """The value that was put, unless it was forgotten."""
        found = self._young.get(key)
        if found is None and (found := self._old.get(key)) is not None:
            self.put(key, found)
        return found

    def put(self, key: K, value: V) -> V:
        """Keep a value, which is returned."""
        if len(self._young) >= self._size:
            self._old, self._young = self._young, {}
        self._young[key] = value
        return value


class OfObjects(Generic[K, V]):
    """Values by the very object they were worked out for, not by what equals it: nothing is hashed."""

    def __init__(self, size: int) -> None:
        self._entries: Recent[int, tuple[K, V]] = Recent(size)

    def get(self, key: K) -> V | None:
        """The value that was put for this object."""
        entry = self._entries.get(id(key))
        # The entry holds its object, so that no other can have come to have the same id.
        return entry[1] if entry is not None else None

    def put(self, key: K, value: V) -> V:
        """Keep a value, which is returned. The object must not change any more."""
        self._entries.put(id(key), (key, value))
        return value
