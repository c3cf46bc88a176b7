"""Node selectors indexed by required labels: only selectors that a node could match are evaluated.

A fleet of partitioned accelerators may have one selector for each device; nearly all name another node.
"""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from threading import RLock

import numpy as np

from kernels.types import Rows
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
        self._exact: dict[Pair, array[int]] = {}
        """Label -> selectors that every node with it matches"""
        self._by_value: dict[Pair, array[int]] = {}
        """Label -> other selectors that a node with it may match"""
        self._others: list[int] = []
        self._unreadable: dict[int, Rejected] = {}
        self._lock = RLock()

    @property
    def unreadable(self) -> dict[int, Rejected]:
        """Code -> why the selector cannot be parsed."""
        self._follow()
        return self._unreadable

    def codes(self, name: str, labels: Mapping[str, str]) -> list[int]:
        """The codes of the selectors that match a node, in any order. A code may appear more than once."""
        self._follow()
        with self._lock:
            found = array("q")
            self._find(name, labels, found)
            return found.tolist()

    def codes_of_each(
        self, nodes: Iterable[tuple[str, Mapping[str, str]]], always: Sequence[int]
    ) -> tuple[Rows, Rows]:
        """The same for many nodes, by name and labels, with some codes that are added to those of each.

        -> (nodes,) how many codes belong to each node, and (M,) the codes, node by node
        """
        self._follow()
        added, found = array("q", always), array("q")
        sizes: list[int] = []
        with self._lock:
            for name, labels in nodes:
                before = len(found)
                self._find(name, labels, found)
                found.extend(added)
                sizes.append(len(found) - before)
        return np.array(sizes, dtype=np.intp), np.array(found, dtype=np.intp)

    def _find(self, name: str, labels: Mapping[str, str], found: "array[int]") -> None:
        """Append the codes of the selectors that match a node."""
        pairs: list[Pair] = [*labels.items(), (None, name)]
        exact, by_value, doubtful = self._exact, self._by_value, [*self._others]
        for pair in pairs:
            if pair in exact:
                found.extend(exact[pair])
            if pair in by_value:
                doubtful += by_value[pair]
        found.extend([code for code in doubtful if self._selectors.values[code].matches(name, labels)])

    def _follow(self) -> None:
        if self._indexed < len(self._selectors.values):
            with self._lock:
                self._index()

    def _index(self) -> None:
        known = len(self._selectors.values)  # another thread may add some meanwhile
        for code in range(self._indexed, known):
            selector = self._selectors.values[code]
            try:
                selector.check()
            except Rejected as exc:
                self._unreadable[code] = exc
                continue
            places = _needs(selector)
            index = self._exact if _needs_no_more(selector) else self._by_value
            for place in places:
                if place not in index:
                    index[place] = array("q")
                index[place].append(code)
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


def _needs_no_more(selector: NodeSelector) -> bool:
    """Whether each term has one requirement only, so that one of its labels is enough."""
    return all(
        len(term.match_fields) + len(term.match_expressions) == 1 for term in selector.node_selector_terms
    )
