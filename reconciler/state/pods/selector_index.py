"""Finds the selectors that may match an object, without trying all of them."""

from collections.abc import Hashable, Iterator, Mapping
from typing import Generic, TypeVar

from reconciler.api.objects.selectors import Selector

Key = TypeVar("Key", bound=Hashable)


class SelectorIndex(Generic[Key]):
    """Keys by their selectors. A selector that requires a label is found by its value alone."""

    def __init__(self) -> None:
        self._by_value: dict[tuple[str, str], dict[Key, None]] = {}
        self._others: dict[Key, None] = {}

    def fork(self) -> "SelectorIndex[Key]":
        """The same keys, changed independently from now on."""
        other: SelectorIndex[Key] = SelectorIndex()
        other._by_value = {pair: dict(keys) for pair, keys in self._by_value.items()}
        other._others = dict(self._others)
        return other

    def add(self, key: Key, selector: Selector) -> None:
        """Add a key that is not there yet."""
        for place in self._places(selector):
            place[key] = None

    def remove(self, key: Key, selector: Selector) -> None:
        """Remove a key with its selector."""
        for place in self._places(selector):
            del place[key]
        for pair in self._pairs(selector):
            if not self._by_value[pair]:
                del self._by_value[pair]

    def candidates(self, labels: Mapping[str, str]) -> Iterator[Key]:
        """The keys whose selectors may match; each once. All others do not match."""
        yield from self._others
        if self._by_value:
            for pair in labels.items():
                yield from self._by_value.get(pair, ())

    def _places(self, selector: Selector) -> list[dict[Key, None]]:
        pairs = self._pairs(selector)
        return [self._by_value.setdefault(pair, {}) for pair in pairs] if pairs else [self._others]

    @staticmethod
    def _pairs(selector: Selector) -> list[tuple[str, str]]:
        """All labels of which a matching object has exactly one; empty if there are none."""
        for one in selector.requirements:
            if one.operator == "In" and one.values:
                return [(one.key, value) for value in one.values]
        return []
