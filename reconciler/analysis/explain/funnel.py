"""Counts the devices that remain after each gate; finds the smallest sets of gates that refuse, and the nodes
that almost fit, with what they lack and why each device there fails.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np
from msgspec import Struct

from kernels.groups import distinct
from kernels.types import Amounts, Mask, Rows
from reconciler.allocation.dra.budget import Fatal
from reconciler.allocation.dra.off_gates import disabled_for
from reconciler.allocation.dra.refusal_counts import kept_for, untold
from reconciler.allocation.dra.request_options import ParsedClaims, RequestOption
from reconciler.allocation.dra.static_match import match_in_fleet, resolve, tolerated
from reconciler.allocation.explanation import Failing, Kind, Lack, NearMiss, Shortage, Step
from reconciler.analysis.explain.gates import SELECTION, Gate, gates_of, problem
from reconciler.analysis.explain.shortage import MOST_HOLDERS, amount, relative_shortage, shortages
from reconciler.api.objects.semantics import spelled
from reconciler.errors import counted
from reconciler.state.devices import exclusion_modes
from reconciler.state.devices.reach import SKIP_OPERATIONS
from reconciler.state.devices.readiness import NodeReach, readiness
from reconciler.state.devices.snapshot import Snapshot


class GateResult(Struct, frozen=True, eq=False):
    """The gates of a request over D devices, and the devices that pass all of them."""

    option: RequestOption
    gates: tuple[Gate, ...]
    left: Mask
    """(D,)"""
    have: Amounts
    """(N,) how many devices the request can get on each node"""
    wanted: Amounts
    """(N,) how many it needs there, at least 1"""
    selected: Mask
    """(D,) devices that pass the selection gates, even if they are held"""
    selected_counts: Amounts
    """(N,) how many of those each node has"""

    @property
    def enough(self) -> Mask:
        """(N,) nodes where the request finds enough."""
        return self.have >= self.wanted


def apply_gates(option: RequestOption, snapshot: Snapshot, reach: NodeReach) -> GateResult:
    """Apply the gates of a request to each device alone."""
    gates = gates_of(option, snapshot, reach)
    left = _all_of(gates, snapshot.fleet.size)
    have = reach.counts(np.flatnonzero(left))
    selected = _all_of([gate for gate in gates if gate.kind in SELECTION], snapshot.fleet.size)
    selected_counts = reach.counts(np.flatnonzero(selected))
    wanted = np.maximum(selected_counts, 1) if option.all else np.full(len(reach.names), option.source.wanted)
    return GateResult(option, tuple(gates), left, have, wanted, selected, selected_counts)


def _all_of(gates: Sequence[Gate], size: int) -> Mask:
    alive = np.ones(size, dtype=np.bool_)
    for gate in gates:
        alive &= gate.passed
    return alive


def funnel(
    result: GateResult, snapshot: Snapshot
) -> tuple[list[Step], tuple[Shortage, ...], tuple[Failing, ...]]:
    """The gates on single devices, in order, with the shortages and errors found."""
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
            short = shortages(stopped, snapshot, match_in_fleet(result.option, snapshot).asks)
            detail = str(short[0]) if short else ""
        elif gate.kind is Kind.HELD:
            detail = kept_for(stopped, snapshot)
        elif gate.kind is Kind.FEATURE:
            needed = disabled_for(result.option, snapshot).items()
            off = [spelled(name) for name, needing in needed if needing[stopped].any()]
            detail = ", ".join(f"{name} is off" for name in off)
        elif gate.kind is Kind.GROUPS:
            detail = _excluded(stopped, result.option, snapshot)
        alive &= gate.passed
        steps.append(Step(gate.kind, gate.about, int(np.count_nonzero(alive)), len(errors), detail))
    return steps, short, tuple(failing)


def _excluded(rows: Rows, option: RequestOption, snapshot: Snapshot) -> str:
    """Why devices are excluded: the request asks for no mode of them, what is held excludes them, or both."""
    return "; ".join(filter(None, [*untold(option, rows, snapshot), exclusion_modes.explain(rows, snapshot)]))


def _failing(option: RequestOption, gate: Gate, row: int, count: int, snapshot: Snapshot) -> Failing:
    device = snapshot.fleet.id_of(row)
    uses = option.selectors if gate.kind is Kind.CLASS else filter(None, (gate.use,))
    found = ((use, text) for use in uses if (text := problem(use, snapshot.fleet, row)))
    use, text = next(found, (None, ""))
    if use is not None:
        return Failing(use.where, device, use.expression, text, count)
    code = int(snapshot.fleet.codes["shape"][row])
    where = f"request {option.name}: {gate.about}"
    return Failing(where, device, "", str(resolve(option, np.array([code]), snapshot).get(code)), count)


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
        self._patterns = distinct(code)
        counts = [reach.counts(np.flatnonzero(code == one)) for one in self._patterns]
        self._counts: Amounts = np.array(counts, dtype=np.int64).reshape(len(counts), len(reach.names))
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


MOST_NAMED_COUNTERS = 2
"""Maximum counters that are named per device."""
SELECTION_WEIGHT = 1000
"""Weight of a failed selection gate; other gates have weight 1. So devices that match are always closer."""


def closest_devices(among: Mask, gates: Sequence[Gate], snapshot: Snapshot, most: int) -> Rows:
    """(n,) up to `most` rows of `among` (D,) that fail, with the smallest failure first."""
    weight = np.zeros(len(among), dtype=np.int64)
    for gate in gates:
        weight += np.where(gate.passed, 0, SELECTION_WEIGHT if gate.kind in SELECTION else 1)
    rows = np.flatnonzero(among & (weight > 0))
    if not len(rows):
        return rows
    near = rows[
        weight[rows] <= np.partition(weight[rows], min(most, len(rows)) - 1)[min(most, len(rows)) - 1]
    ]
    order = np.lexsort((near, relative_shortage(near, snapshot), weight[near]))
    return near[order[:most]]


def describe_failure(row: int, option: RequestOption, gates: Sequence[Gate], snapshot: Snapshot) -> str:
    """Why a device fails: the first failed selection gate, or otherwise all failed gates."""
    failed = [gate for gate in gates if not gate.passed[row]]
    # The allocator does not evaluate later selectors.
    selection = [gate for gate in failed if gate.kind in SELECTION][:1]
    return "; ".join(_failure(row, option, gate, snapshot) for gate in selection or failed)


def _failure(row: int, option: RequestOption, gate: Gate, snapshot: Snapshot) -> str:
    name = snapshot.fleet.id_of(row).device
    match gate.kind:
        case Kind.CLASS | Kind.SELECTOR if gate.error is not None and gate.error[row]:
            return f"{gate.about} fails on {name}: {_problem(row, option, gate, snapshot)}"
        case Kind.CLASS | Kind.SELECTOR:
            return f"other devices on the node do not match {gate.about}"
        case Kind.FEATURE:
            off = [gate for gate, needing in disabled_for(option, snapshot).items() if needing[row]]
            return f"{name} needs {' and '.join(off)}, which {'is' if len(off) == 1 else 'are'} off"
        case Kind.POOL:
            at = int(snapshot.fleet.pool_of[row])
            flaw = readiness(snapshot.topology).problems.get(at, "the node sees slices of another generation")
            return f"{name} is in pool {snapshot.fleet.pools[at].id}, which is not ready: {flaw}"
        case Kind.TAINTS:
            return f"{name} has {_taints(row, option, snapshot)}"
        case Kind.HELD:
            if row in snapshot.occupancy.held_for:
                return f"{name} is held for {snapshot.occupancy.held_for[row]}"
            return f"{name} is held{_held_by(row, snapshot)}"
        case Kind.CAPACITY:
            return _capacity_of_device(row, option, snapshot)
        case Kind.COUNTERS:
            return _counters_of_device(row, option, snapshot)
        case Kind.GROUPS:
            why = _excluded(np.array([row], dtype=np.intp), option, snapshot)
            return f"{name} is excluded{f' ({why})' if why else ''}"
    if snapshot.fleet.codes["operations"][row] >= 0:
        return f"{name} skips node operations: no considered node that it is for declares {SKIP_OPERATIONS}"
    return f"no considered node can reach {name}"


def _problem(row: int, option: RequestOption, gate: Gate, snapshot: Snapshot) -> str:
    uses = (gate.use,) if gate.use is not None else option.selectors
    return next(filter(None, (problem(use, snapshot.fleet, row) for use in uses)), "")


def _counters_of_device(row: int, option: RequestOption, snapshot: Snapshot) -> str:
    """The scarcest counters; a fully used device is short of all of them."""
    asks = match_in_fleet(option, snapshot).asks
    found = shortages(np.array([row], dtype=np.intp), snapshot, asks)
    if not found:
        return f"the pool of {snapshot.fleet.id_of(row).device} is over-committed"
    scarcest = found[-MOST_NAMED_COUNTERS:][::-1]
    more = len(found) - len(scarcest)
    others = f" (and {counted(more, 'more counter')})" if more else ""
    return "; ".join(map(str, scarcest)) + others


def _held_by(row: int, snapshot: Snapshot) -> str:
    claims = snapshot.occupancy.claims_of(snapshot.fleet.id_of(row))
    return f" by {', '.join(map(str, claims[:MOST_HOLDERS]))}" if claims else ""


def _taints(row: int, option: RequestOption, snapshot: Snapshot) -> str:
    taints = snapshot.fleet.vocabulary.taints.values[int(snapshot.fleet.codes["taints"][row])]
    texts = [str(taint) for taint in taints if not tolerated((taint,), option.source.tolerations)]
    return f"the taint{'s' if len(texts) > 1 else ''} {', '.join(texts)}"


def _capacity_of_device(row: int, option: RequestOption, snapshot: Snapshot) -> str:
    name = snapshot.fleet.id_of(row).device
    code = int(snapshot.fleet.codes["shape"][row])
    taken = resolve(option, np.array([code]), snapshot).get(code)
    if isinstance(taken, Fatal):
        return f"capacity of {name}: {taken}"
    if taken is None:
        return f"{name} does not have the requested capacity"
    if (asks := match_in_fleet(option, snapshot).asks) is not None and asks.refused[row]:
        return f"the counters of {name} or their request policies do not allow the requested amount (preview)"
    consumed = snapshot.occupancy.consumed.get(row, {})
    short = [
        f"{amount(consumed.get(key, 0) + wanted.nanos - taken.total[key])} {key}"
        for key, wanted in taken.taken.items()
        if consumed.get(key, 0) + wanted.nanos > taken.total[key]
    ]
    return f"{name} is short of {', '.join(short)}{_held_by(row, snapshot) if consumed else ''}"


MOST_NODES = 3
MOST_DEVICES = 3
"""Maximum devices of a node whose failure a near miss describes."""


def near_misses(
    parsed: ParsedClaims, results: Sequence[Sequence[GateResult]], snapshot: Snapshot, reach: NodeReach
) -> Iterator[NearMiss]:
    """The nodes that lack the fewest devices; among equals those with more matching devices, then by name.

    `results` has, for each slot, those of its alternatives.
    """
    # Counts come from users and may be huge: sums of them must not overflow.
    total = np.zeros(len(reach.names), dtype=np.float64)
    unmatched = np.zeros(len(reach.names), dtype=np.float64)
    for alternatives in results:
        total += np.min([_missing(result).astype(np.float64) for result in alternatives], axis=0)
        unmatched += np.min([_unmatched(result).astype(np.float64) for result in alternatives], axis=0)
    for at in np.lexsort((unmatched, total))[:MOST_NODES].tolist():
        lacks = []
        for alternatives in results:
            best = min(alternatives, key=lambda result: int(_missing(result)[at]))
            if _missing(best)[at]:
                lacks.append(_lack(parsed, best, at, snapshot, reach))
        yield NearMiss(reach.names[at], tuple(lacks))


def _missing(result: GateResult) -> Amounts:
    return np.maximum(result.wanted - result.have, 0)


def _unmatched(result: GateResult) -> Amounts:
    return np.maximum(result.wanted - result.selected_counts, 0)


def _lack(parsed: ParsedClaims, result: GateResult, at: int, snapshot: Snapshot, reach: NodeReach) -> Lack:
    most = min(int(_missing(result)[at]), MOST_DEVICES)
    rows = closest_devices(reach.at(at), result.gates, snapshot, most)
    why = dict.fromkeys(describe_failure(row, result.option, result.gates, snapshot) for row in rows.tolist())
    if not why:
        why["the node has no other device"] = None
    return Lack(
        parsed.claims[result.option.claim].key,
        result.option.name,
        int(result.have[at]),
        int(result.wanted[at]),
        tuple(why),
    )
