"""Counts the devices that remain after each gate."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from kernels.types import Amounts, Mask
from reconciler.allocation.dra.disabled_features import disabled_features
from reconciler.allocation.dra.request_options import RequestOption
from reconciler.allocation.dra.static_match import resolve
from reconciler.allocation.dra.tally import kept_for
from reconciler.allocation.reasons.explanation import Failing, Shortage, Step
from reconciler.allocation.reasons.kinds import Kind
from reconciler.analysis.explain.gates import SELECTION, Gate, gates_of, problem
from reconciler.analysis.explain.node_reach import NodeReach
from reconciler.analysis.explain.shortage import shortages
from reconciler.state.devices.exclusion import modes
from reconciler.state.devices.snapshot.snapshot import Snapshot


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
            detail = modes.explain(stopped, snapshot)
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
