"""Counts the devices that remain after each gate, and finds the smallest sets of gates that alone refuse."""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from kernels.types import Amounts, Mask
from reconciler.allocation.dra.refusal_counts import kept_for
from reconciler.allocation.dra.request_options import RequestOption
from reconciler.allocation.dra.static_match import disabled_features, resolve
from reconciler.allocation.reasons.explanation import Failing, Kind, Shortage, Step
from reconciler.analysis.explain.gates import SELECTION, Gate, NodeReach, gates_of, problem
from reconciler.analysis.explain.shortage import shortages
from reconciler.state.devices import exclusion_modes
from reconciler.state.devices.snapshot import Snapshot


class NodeCounts(NamedTuple):
    """Per node (N,): how many devices a request can get there, and how many it needs."""

    have: Amounts
    wanted: Amounts
    """At least 1"""

    @property
    def enough(self) -> Mask:
        return self.have >= self.wanted


class GateResult(Struct, frozen=True, eq=False):
    """The gates of a request over D devices, and the devices that pass all of them."""

    option: RequestOption
    gates: tuple[Gate, ...]
    left: Mask
    """(D,)"""
    nodes: NodeCounts
    selected: Mask
    """(D,) devices that pass the selection gates, even if they are held"""
    selected_counts: Amounts
    """(N,) how many of those each node has"""


def apply_gates(option: RequestOption, snapshot: Snapshot, reach: NodeReach) -> GateResult:
    """Apply the gates of a request to each device alone."""
    gates = gates_of(option, snapshot, reach)
    left = _all_of(gates, snapshot.fleet.size)
    have = reach.counts(left)
    selected = _all_of([gate for gate in gates if gate.kind in SELECTION], snapshot.fleet.size)
    selected_counts = reach.counts(selected)
    wanted = np.maximum(selected_counts, 1) if option.all else np.full(len(reach.names), option.source.wanted)
    return GateResult(option, tuple(gates), left, NodeCounts(have, wanted), selected, selected_counts)


def _all_of(gates: Sequence[Gate], size: int) -> Mask:
    alive = np.ones(size, dtype=np.bool_)
    for gate in gates:
        alive &= gate.passed
    return alive


class Funnel(Struct, frozen=True, eq=False):
    """The steps of a funnel, with the shortages and errors found."""

    steps: tuple[Step, ...]
    shortages: tuple[Shortage, ...]
    failing: tuple[Failing, ...]


def funnel(result: GateResult, snapshot: Snapshot) -> Funnel:
    """The gates on single devices, in order."""
    alive = np.ones(snapshot.fleet.size, dtype=np.bool_)
    steps: list[Step] = []
    short: tuple[Shortage, ...] = ()
    failing: list[Failing] = []
    for gate in result.gates:
        errors = np.flatnonzero(alive & gate.error) if gate.error is not None else np.zeros(0, np.intp)
        if len(errors):
            failing.append(_failing(result.option, gate, int(errors[0]), len(errors), snapshot))
        stopped = np.flatnonzero(alive & ~gate.passed)
        detail = ""
        if gate.kind is Kind.COUNTERS:
            short = shortages(stopped, snapshot)
            detail = str(short[0]) if short else ""
        elif gate.kind is Kind.HELD:
            detail = kept_for(stopped, snapshot)
        elif gate.kind is Kind.FEATURE:
            needed = disabled_features(snapshot.topology).items()
            detail = ", ".join(f"{name} is off" for name, needing in needed if needing[stopped].any())
        elif gate.kind is Kind.GROUPS:
            detail = exclusion_modes.explain(stopped, snapshot)
        alive &= gate.passed
        steps.append(Step(gate.kind, gate.about, int(np.count_nonzero(alive)), len(errors), detail))
    return Funnel(tuple(steps), short, tuple(failing))


def _failing(option: RequestOption, gate: Gate, row: int, count: int, snapshot: Snapshot) -> Failing:
    device = snapshot.fleet.id_of(row)
    uses = option.selectors if gate.kind is Kind.CLASS else filter(None, (gate.use,))
    found = ((use, text) for use in uses if (text := problem(use, snapshot.fleet, row)))
    use, text = next(found, (None, ""))
    if use is not None:
        return Failing(use.where, device, use.expression, text, count)
    code = int(snapshot.fleet.codes["shape"][row])
    where = f"request {option.name}: {gate.about}"
    return Failing(where, device, "", str(resolve(option, [code], snapshot).get(code)), count)


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
