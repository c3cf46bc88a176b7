"""Node selectors indexed by required labels: only selectors that a node could match are evaluated.

A fleet of partitioned accelerators may have one selector for each device; nearly all name another node.
"""

from threading import RLock

import numpy as np

from kernels.types import Mask
from reconciler.api.objects.node_selector import NodeSelector
from reconciler.errors import Rejected
from reconciler.state.devices.encoding.interner import Interner

NAME = "metadata.name"


class SelectorIndex:
    """An index over an interner of selectors, which may grow. Thread-safe."""

    def __init__(self, selectors: Interner[NodeSelector]) -> None:
        self._selectors = selectors
        self._indexed = 0
        self._by_value: dict[tuple[str, str], list[int]] = {}
        self._others: list[int] = []
        self._unreadable: dict[int, Rejected] = {}
        self._lock = RLock()

    @property
    def unreadable(self) -> dict[int, Rejected]:
        """Code -> why the selector cannot be parsed."""
        self._follow()
        return self._unreadable

    def matching(self, name: str, labels: dict[str, str]) -> Mask:
        """(Q,) whether each selector matches a node. False if the selector cannot be parsed."""
        with self._lock:
            self._follow()
            found = np.zeros(self._indexed, dtype=np.bool_)
            near = [self._by_value.get(pair, ()) for pair in labels.items()]
            for codes in (*near, self._by_value.get((NAME, name), ()), self._others):
                for code in codes:
                    found[code] = self._selectors.values[code].matches(name, labels)
            return found

    def _follow(self) -> None:
        with self._lock:
            self._index()

    def _index(self) -> None:
        for code in range(self._indexed, len(self._selectors.values)):
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
        self._indexed = len(self._selectors.values)


def _needs(selector: NodeSelector) -> list[tuple[str, str]]:
    """Labels; a matching node has at least one of them. Empty if there are no such labels."""
    places: list[tuple[str, str]] = []
    for term in selector.node_selector_terms:
        wanted = [(NAME, r) for r in term.match_fields if r.operator == "In"]
        wanted += [(r.key, r) for r in term.match_expressions if r.operator == "In"]
        if not wanted:
            return []
        key, requirement = min(wanted, key=lambda pair: len(pair[1].values))
        places += [(key, value) for value in requirement.values]
    return places
