"""Distinct values as small integers."""

from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar, cast

T = TypeVar("T")

UNKNOWN = -2
"""The code of a value that was never seen. No column holds it."""

LARGE = 1 << 13
"""Values from which on the codes are kept in PARTS. A dictionary that grows moves all its entries: that of
the serial numbers of a million devices would hold the event loop for 170 ms, and to split it later for 50"""
PARTS = 61
"""A prime: a dictionary places its entries by the lowest bits of their hashes, which must not be alike"""


class Interner(Generic[T]):
    """Codes of distinct values, numbered in the order in which they were first seen."""

    def __init__(self) -> None:
        self.values: list[T] = []
        self.keys: list[Hashable] = cast("list[Hashable]", self.values)
        """The same list while every key is its value: of a million serial numbers, a second one takes 8 MB"""
        self._codes: list[dict[Hashable, int]] = [{}]
        """By the hash of the key"""

    def code(self, value: T, key: Hashable | None = None) -> int:
        """The code of a value. `key` distinguishes values that compare equal, such as 1 and True."""
        key = value if key is None else key
        parts = self._codes
        codes = parts[0] if len(parts) == 1 else parts[hash(key) % PARTS]
        known = codes.get(key)
        return self._add(value, key, codes) if known is None else known

    def codes(self, values: Sequence[T]) -> Sequence[int]:
        """The codes of values that are their own keys."""
        parts, found = self._codes, list[int]()
        for value in values:
            codes = parts[0] if len(parts) == 1 else parts[hash(value) % PARTS]
            known = codes.get(value)
            found.append(self.code(value) if known is None else known)
        return found

    def find(self, key: Hashable) -> int:
        """The code of a known value, else UNKNOWN."""
        parts = self._codes
        codes = parts[0] if len(parts) == 1 else parts[hash(key) % PARTS]
        return codes.get(key, UNKNOWN)

    def _add(self, value: T, key: Hashable, codes: dict[Hashable, int]) -> int:
        """The code of a new value, which belongs in these codes."""
        new = codes[key] = len(self.values)
        if key is not value and self.keys is self.values:
            self.keys = [*self.values]
        self.values.append(value)
        if self.keys is not self.values:
            self.keys.append(key)
        if new == LARGE:
            self._split()
        return new

    def _split(self) -> None:
        parts: list[dict[Hashable, int]] = [{} for _ in range(PARTS)]
        for code, key in enumerate(self.keys):
            parts[hash(key) % PARTS][key] = code
        self._codes = parts
