"""The smallest sets of gates that alone are enough to refuse a request option on every node."""

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from kernels.types import Amounts, Mask
from reconciler.allocation.reasons.kinds import Kind
from reconciler.analysis.explain.gates import SELECTION, Gate
from reconciler.analysis.explain.places import Places

MOST_GATES = 12
"""Beyond these, the selectors of a request count as one gate: all subsets are tried."""
MOST_SETS = 6
"""Sets of equal size that are told."""

Group = tuple[Kind, str, Mask]
"""A gate, or several selectors as one: kind, words, (D,) passed"""


def smallest_sets(gates: Sequence[Gate], wanted: int | None, places: Places) -> tuple[tuple[str, ...], ...]:
    """Sets of gates, as few as possible, with which alone no node has enough devices; none if all do not do.

    `wanted` devices are enough; None is all that are meant, of which there must be one at least. An empty
    set says that no node has so many devices at all.
    """
    groups = [group for group in grouped(gates) if not group[2].all()]
    if not places.names:
        return ()
    test = _Test(groups, len(gates[0].passed), wanted, places)
    if not test.excludes((1 << len(groups)) - 1):
        return ()
    for size in range(len(groups) + 1):
        found = [
            chosen
            for chosen in combinations(range(len(groups)), size)
            if test.excludes(sum(1 << number for number in chosen))
        ]
        if found:
            return tuple(tuple(groups[n][1] for n in chosen) for chosen in found[:MOST_SETS])
    return ()


def grouped(gates: Sequence[Gate]) -> Iterator[Group]:
    """The gates, all selectors of the request as one if there are too many to try every subset."""
    fold = sum(not gate.passed.all() for gate in gates) > MOST_GATES
    selectors = [gate for gate in gates if gate.kind is Kind.SELECTOR]
    for gate in gates:
        if not fold or gate.kind is not Kind.SELECTOR:
            yield gate.kind, gate.about, gate.passed
        elif gate is selectors[0]:
            passed = np.logical_and.reduce([one.passed for one in selectors])
            yield Kind.SELECTOR, f"the {len(selectors)} selectors", passed


class _Test:
    """Devices that fail the same gates are told apart by nothing but their place."""

    def __init__(self, groups: Sequence[Group], size: int, wanted: int | None, places: Places) -> None:
        code = np.zeros(size, dtype=np.int64)
        for number, (_, _, passed) in enumerate(groups):
            code |= (~passed).astype(np.int64) << number
        self._patterns, kind = np.unique(code, return_inverse=True)
        self._counts: Amounts = places.table(kind.reshape(-1), len(self._patterns))
        """(patterns, N)"""
        self._wanted = wanted
        self._selection = sum(1 << n for n, group in enumerate(groups) if group[0] in SELECTION)
        meant = (self._patterns & self._selection) == 0
        self._meant = self._patterns[meant]
        self._meant_counts = self._counts[meant]

    def excludes(self, chosen: int) -> bool:
        """Whether the gates in a set of bits leave no node with enough."""
        if self._wanted is not None:
            left = self._counts[(self._patterns & chosen) == 0].sum(axis=0)
            return bool((left < self._wanted).all())
        some = self._counts[(self._patterns & chosen & self._selection) == 0].sum(axis=0) > 0
        lost = self._meant_counts[(self._meant & chosen) != 0].sum(axis=0) > 0
        return bool((lost | ~some).all())
