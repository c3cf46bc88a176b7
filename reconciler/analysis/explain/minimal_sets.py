"""The smallest sets of gates that alone refuse a request on every node."""

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from kernels.types import Amounts, Mask
from reconciler.allocation.reasons.kinds import Kind
from reconciler.analysis.explain.gates import SELECTION, Gate
from reconciler.analysis.explain.node_reach import NodeReach

MOST_GATES = 12
"""With more gates, the selectors of a request count as one gate, because all subsets are tried."""
MOST_SETS = 6
"""Maximum sets that are reported."""

MergedGate = tuple[Kind, str, Mask]
"""A gate, or several selectors as one: kind, text, (D,) passed"""


def smallest_sets(gates: Sequence[Gate], wanted: int | None, reach: NodeReach) -> tuple[tuple[str, ...], ...]:
    """The smallest sets of gates that alone leave no node with enough devices; () if there is none.

    `wanted` devices are enough; None means all selected devices, and at least one. An empty set means that no
    node has this many devices even without gates.
    """
    groups = [group for group in grouped(gates) if not group[2].all()]
    if not reach.names:
        return ()
    patterns = _FailurePatterns(groups, len(gates[0].passed), wanted, reach)
    if not patterns.excludes((1 << len(groups)) - 1):
        return ()
    for size in range(len(groups) + 1):
        found = [
            chosen
            for chosen in combinations(range(len(groups)), size)
            if patterns.excludes(sum(1 << number for number in chosen))
        ]
        if found:
            return tuple(tuple(groups[n][1] for n in chosen) for chosen in found[:MOST_SETS])
    return ()


def grouped(gates: Sequence[Gate]) -> Iterator[MergedGate]:
    """The gates; the selectors of the request are merged if there are too many gates to try every subset."""
    fold = sum(not gate.passed.all() for gate in gates) > MOST_GATES
    selectors = [gate for gate in gates if gate.kind is Kind.SELECTOR]
    for gate in gates:
        if not fold or gate.kind is not Kind.SELECTOR:
            yield gate.kind, gate.about, gate.passed
        elif gate is selectors[0]:
            passed = np.logical_and.reduce([selector.passed for selector in selectors])
            yield Kind.SELECTOR, f"the {len(selectors)} selectors", passed


class _FailurePatterns:
    """Counts devices by the set of gates that they fail, and by node."""

    def __init__(self, groups: Sequence[MergedGate], size: int, wanted: int | None, reach: NodeReach) -> None:
        code = np.zeros(size, dtype=np.int64)
        for number, (_, _, passed) in enumerate(groups):
            code |= (~passed).astype(np.int64) << number
        self._patterns, kind = np.unique(code, return_inverse=True)
        self._counts: Amounts = reach.table(kind.reshape(-1), len(self._patterns))
        """(patterns, N)"""
        self._wanted = wanted
        self._selection = sum(1 << n for n, group in enumerate(groups) if group[0] in SELECTION)
        selected = (self._patterns & self._selection) == 0
        self._selected = self._patterns[selected]
        self._selected_counts = self._counts[selected]

    def excludes(self, chosen: int) -> bool:
        """Whether the gates in a bit set leave no node with enough devices."""
        if self._wanted is not None:
            left = self._counts[(self._patterns & chosen) == 0].sum(axis=0)
            return bool((left < self._wanted).all())
        some = self._counts[(self._patterns & chosen & self._selection) == 0].sum(axis=0) > 0
        lost = self._selected_counts[(self._selected & chosen) != 0].sum(axis=0) > 0
        return bool((lost | ~some).all())
