"""Distinct values as small integers."""

from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T")

UNKNOWN = -2
"""The code of a value that was never seen. No column holds it."""

LARGE, PARTS = 100_000, 16
"""Values from which on the codes are kept in so many parts. A dictionary that grows moves all its entries:
one for the serial numbers of a million devices would hold the event loop for 170 ms"""


class Interner(Generic[T]):
    """Codes of distinct values, numbered in the order in which they were first seen."""

    def __init__(self) -> None:
        self.values: list[T] = []
        self.keys: list[Hashable] = []
        self._codes: list[dict[Hashable, int]] = [{}]
        """By the hash of the key"""

    def code(self, value: T, key: Hashable | None = None) -> int:
        """The code of a value. `key` distinguishes values that compare equal, such as 1 and True."""
        key = value if key is None else key
        parts = self._codes
        codes = parts[0] if len(parts) == 1 else parts[hash(key) % PARTS]
        known = codes.get(key)
        if known is None:
            known = codes[key] = len(self.values)
            self.values.append(value)
            self.keys.append(key)
            if known == LARGE:
                self._split()
        return known

    def find(self, key: Hashable) -> int:
        """The code of a known value, else UNKNOWN."""
        parts = self._codes
        codes = parts[0] if len(parts) == 1 else parts[hash(key) % PARTS]
        return codes.get(key, UNKNOWN)

    def _split(self) -> None:
        self._codes = [{} for _ in range(PARTS)]
        for code, key in enumerate(self.keys):
            self._codes[hash(key) % PARTS][key] = code
