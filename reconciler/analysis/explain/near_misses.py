"""The nodes that almost fit, what they lack, and why each device there fails: who holds it, what it lacks."""

from collections.abc import Iterator, Sequence

import numpy as np

from kernels.types import Amounts, Mask, Rows
from reconciler.allocation.dra.budget import Fatal
from reconciler.allocation.dra.request_options import ParsedClaims, RequestOption
from reconciler.allocation.dra.static_match import disabled_features, resolve, tolerated
from reconciler.allocation.reasons.explanation import Kind, Lack, NearMiss
from reconciler.analysis.explain.funnel import GateResult
from reconciler.analysis.explain.gates import SELECTION, Gate, NodeReach, problem
from reconciler.analysis.explain.shortage import MOST_HOLDERS, amount, relative_shortage, shortages_of_device
from reconciler.state.devices import exclusion_modes
from reconciler.state.devices.snapshot import Snapshot

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
            off = [gate for gate, needing in disabled_features(snapshot.topology).items() if needing[row]]
            return f"{name} needs {' and '.join(off)}, which {'is' if len(off) == 1 else 'are'} off"
        case Kind.POOL:
            pool = snapshot.fleet.pools[int(snapshot.fleet.pool_of[row])]
            flaw = pool.flaw(snapshot.rules) or "an older generation"
            return f"{name} is in pool {pool.id}, which is not ready: {flaw}"
        case Kind.TAINTS:
            return f"{name} has {_taints(row, option, snapshot)}"
        case Kind.HELD:
            if row in snapshot.occupancy.held_for:
                return f"{name} is held for {snapshot.occupancy.held_for[row]}"
            return f"{name} is held{_held_by(row, snapshot)}"
        case Kind.CAPACITY:
            return _capacity_of_device(row, option, snapshot)
        case Kind.COUNTERS:
            return _counters_of_device(row, snapshot)
        case Kind.GROUPS:
            why = exclusion_modes.explain(np.array([row], dtype=np.intp), snapshot)
            return f"{name} is excluded{f' ({why})' if why else ''}"
    return f"no considered node can reach {name}"


def _problem(row: int, option: RequestOption, gate: Gate, snapshot: Snapshot) -> str:
    uses = (gate.use,) if gate.use is not None else option.selectors
    return next(filter(None, (problem(use, snapshot.fleet, row) for use in uses)), "")


def _counters_of_device(row: int, snapshot: Snapshot) -> str:
    """The scarcest counters; a fully used device is short of all of them."""
    found = shortages_of_device(row, snapshot)
    if not found:
        return f"the pool of {snapshot.fleet.id_of(row).device} is over-committed"
    scarcest = found[-MOST_NAMED_COUNTERS:][::-1]
    more = len(found) - len(scarcest)
    others = f" (and {more} more counter{'s' if more > 1 else ''})" if more else ""
    return "; ".join(map(str, scarcest)) + others


def _held_by(row: int, snapshot: Snapshot) -> str:
    claims = snapshot.occupancy.claims_of(snapshot.fleet.id_of(row))
    return f" by {', '.join(map(str, claims[:MOST_HOLDERS]))}" if claims else ""


def _taints(row: int, option: RequestOption, snapshot: Snapshot) -> str:
    taints = snapshot.fleet.vocabulary.taints.values[int(snapshot.fleet.codes["taints"][row])]
    blocking = [taint for taint in taints if not tolerated((taint,), option.source.tolerations)]
    texts = [f"{taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}" for taint in blocking]
    return f"the taint{'s' if len(texts) > 1 else ''} {', '.join(texts)}"


def _capacity_of_device(row: int, option: RequestOption, snapshot: Snapshot) -> str:
    name = snapshot.fleet.id_of(row).device
    code = int(snapshot.fleet.codes["shape"][row])
    taken = resolve(option, [code], snapshot).get(code)
    if isinstance(taken, Fatal):
        return f"capacity of {name}: {taken}"
    if taken is None:
        return f"{name} does not have the requested capacity"
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
    return np.maximum(result.nodes.wanted - result.nodes.have, 0)


def _unmatched(result: GateResult) -> Amounts:
    return np.maximum(result.nodes.wanted - result.selected_counts, 0)


def _lack(parsed: ParsedClaims, result: GateResult, at: int, snapshot: Snapshot, reach: NodeReach) -> Lack:
    most = min(int(_missing(result)[at]), MOST_DEVICES)
    rows = closest_devices(reach.at(at), result.gates, snapshot, most)
    why = dict.fromkeys(describe_failure(row, result.option, result.gates, snapshot) for row in rows.tolist())
    if not why:
        why["the node has no other device"] = None
    return Lack(
        parsed.claims[result.option.claim].key,
        result.option.name,
        int(result.nodes.have[at]),
        int(result.nodes.wanted[at]),
        tuple(why),
    )
