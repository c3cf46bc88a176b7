"""Which pods the pods on nodes would like near them, or away from them. Source: PREF-4."""

from collections.abc import Iterator
from typing import NamedTuple

from reconciler.api.objects.core import Pod
from reconciler.errors import Rejected
from reconciler.state.pods.selector_index import SelectorIndex
from reconciler.state.pods.terms import LabelsOf, Term, affinity_of, preferred_of

REQUIRED = 1
"""What a required affinity term of a pod counts for the pods that it selects"""


class Wish(NamedTuple):
    """A term of a pod on a node, and how much it counts; less than 0 keeps pods away."""

    term: Term
    weight: int


class Wishes:
    """How many pods have each wish, by row of nodes."""

    def __init__(self) -> None:
        self._rows: dict[Wish, dict[int, int]] = {}
        """Sparse: most wishes are those of one workload"""
        self._by_label: SelectorIndex[Wish] = SelectorIndex()

    def fork(self) -> "Wishes":
        """The same wishes, changed independently from now on."""
        other = Wishes()
        other._rows = {wish: dict(rows) for wish, rows in self._rows.items()}
        other._by_label = self._by_label.fork()
        return other

    def count(self, pod: Pod, row: int, sign: int) -> None:
        """Add a pod at the row of its node, or remove it with a sign of -1."""
        for wish in wishes_of(pod):
            if wish not in self._rows:
                self._rows[wish] = {}
                self._by_label.add(wish, wish.term.selector)
            rows = self._rows[wish]
            rows[row] = rows.get(row, 0) + sign
            if rows[row] == 0:
                del rows[row]
            if not rows:
                del self._rows[wish]
                self._by_label.remove(wish, wish.term.selector)

    def about(self, pod: Pod, labels_of: LabelsOf) -> Iterator[tuple[Wish, dict[int, int]]]:
        """The wishes that select a pod, each with the number of pods by row. Callers must not change them."""
        labels, namespace = pod.metadata.labels, pod.key.namespace
        for wish in self._by_label.candidates(labels):
            if wish.term.matches(namespace, labels, labels_of):
                yield wish, self._rows[wish]


def wishes_of(pod: Pod) -> tuple[Wish, ...]:
    """What a pod on a node would like. Terms that cannot be read count for nothing."""
    if pod.spec.affinity is None:
        return ()
    try:
        required = [Wish(term, REQUIRED) for term in affinity_of(pod)]
        return *required, *(Wish(term, weight) for term, weight in preferred_of(pod))
    except Rejected:
        return ()
