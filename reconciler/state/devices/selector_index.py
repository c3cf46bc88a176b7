"""Node selectors indexed by required labels: only selectors that a node could match are evaluated.

A fleet of partitioned accelerators may have one selector for each device; nearly all name another node.
"""

from collections.abc import Mapping
from threading import Lock

from reconciler.api.objects.selectors import NodeSelector, NodeSelectorRequirement
from reconciler.errors import Rejected
from reconciler.state.devices.encoding.interner import Interner

Pair = tuple[str | None, str]
"""A label, or the name of a node without a key"""


class SelectorIndex:
    """An index over an interner of selectors, which may grow. Thread-safe."""

    def __init__(self, selectors: Interner[NodeSelector]) -> None:
        self._selectors = selectors
        self._indexed = 0
        self._by_value: dict[Pair, list[int]] = {}
        """Label -> selectors that a node with it may match"""
        self._others: list[int] = []
        self._unreadable: dict[int, Rejected] = {}
        self._lock = Lock()

    @property
    def unreadable(self) -> dict[int, Rejected]:
        """Code -> why the selector cannot be parsed."""
        self._follow()
        return self._unreadable

    def codes(self, name: str, labels: Mapping[str, str]) -> list[int]:
        """The codes of the selectors that match a node, in any order. A code may appear more than once."""
        self._follow()
        candidates = [*self._others, *self._by_value.get((None, name), ())]
        for pair in labels.items():
            candidates += self._by_value.get(pair, ())
        return [code for code in candidates if self._selectors.values[code].matches(name, labels)]

    def _follow(self) -> None:
        """Index the selectors that came since."""
        with self._lock:
            known = len(self._selectors.values)  # another thread may add some meanwhile
            for code in range(self._indexed, known):
                selector = self._selectors.values[code]
                try:
                    selector.check()
                except Rejected as exc:
                    self._unreadable[code] = exc
                    continue
                places = _needs(selector)
                for place in places:
                    self._by_value.setdefault(place, []).append(code)
                if not places:
                    self._others.append(code)
            self._indexed = known


def _needs(selector: NodeSelector) -> list[Pair]:
    """Labels; a matching node has at least one of them. Empty if there are no such labels."""
    places: list[Pair] = []
    for term in selector.node_selector_terms:
        wanted: list[tuple[str | None, NodeSelectorRequirement]]
        wanted = [(None, r) for r in term.match_fields if r.operator == "In"]
        wanted += [(r.key, r) for r in term.match_expressions if r.operator == "In"]
        if not wanted:
            return []
        key, requirement = min(wanted, key=lambda pair: len(pair[1].values))
        places += [(key, value) for value in requirement.values]
    return places
