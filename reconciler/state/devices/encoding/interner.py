"""Distinct values as small integers."""

from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T")

UNKNOWN = -2
"""The code of a value that was never seen. No column holds it."""


class Interner(Generic[T]):
    """Codes of distinct values, numbered in the order in which they were first seen."""

    def __init__(self) -> None:
        self.values: list[T] = []
        self.keys: list[Hashable] = []
        self._codes: dict[Hashable, int] = {}

    def code(self, value: T, key: Hashable | None = None) -> int:
        """The code of a value. `key` distinguishes values that compare equal, such as 1 and True."""
        key = value if key is None else key
        known = self._codes.get(key)
        if known is None:
            known = self._codes[key] = len(self.values)
            self.values.append(value)
            self.keys.append(key)
        return known

    def find(self, key: Hashable) -> int:
        """The code of a known value, else UNKNOWN."""
        return self._codes.get(key, UNKNOWN)
