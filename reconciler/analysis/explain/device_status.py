"""What stands against one device, in words that name who holds it and by how much it falls short."""

from collections.abc import Sequence

import numpy as np

from kernels.types import Mask, Rows
from reconciler.allocation.dra.refusal import Fatal
from reconciler.allocation.dra.request_options import RequestOption
from reconciler.allocation.dra.static_match import resolve, tolerated
from reconciler.allocation.reasons.kinds import Kind
from reconciler.analysis.explain.gates import SELECTION, Gate, problem
from reconciler.analysis.explain.shortage import MOST_HOLDERS, amount, of_device, relative
from reconciler.state.devices.exclusion import modes
from reconciler.state.devices.snapshot.snapshot import Snapshot

MOST_COUNTERS = 2
"""Counters of one device that are named."""
FAR = 1000
"""What a gate of selection weighs against one of state: a device that is meant is nearer than another."""


def nearest(among: Mask, gates: Sequence[Gate], world: Snapshot, most: int) -> Rows:
    """(n,) up to `most` rows of `among` (D,) that fail, those that fail least first."""
    weight = np.zeros(len(among), dtype=np.int64)
    for gate in gates:
        weight += np.where(gate.passed, 0, FAR if gate.kind in SELECTION else 1)
    rows = np.flatnonzero(among & (weight > 0))
    if not len(rows):
        return rows
    near = rows[
        weight[rows] <= np.partition(weight[rows], min(most, len(rows)) - 1)[min(most, len(rows)) - 1]
    ]
    order = np.lexsort((near, relative(near, world), weight[near]))
    return near[order[:most]]


def against(row: int, option: RequestOption, gates: Sequence[Gate], world: Snapshot) -> str:
    """What stands against a device: that it is another, or else who holds it, what it lacks, and so on."""
    failed = [gate for gate in gates if not gate.passed[row]]
    # Of what selects, the first that fails: those after it would not even be tried.
    other = [gate for gate in failed if gate.kind in SELECTION][:1]
    return "; ".join(_against(row, option, gate, world) for gate in other or failed)


def _against(row: int, option: RequestOption, gate: Gate, world: Snapshot) -> str:
    name = world.fleet.id_of(row).device
    match gate.kind:
        case Kind.CLASS | Kind.SELECTOR if gate.error is not None and gate.error[row]:
            return f"{gate.about} fails on {name}: {_problem(row, option, gate, world)}"
        case Kind.CLASS | Kind.SELECTOR:
            return f"other devices there do not pass {gate.about}"
        case Kind.FEATURE:
            return f"{name} needs a feature that is off"
        case Kind.POOL:
            pool = world.fleet.pools[int(world.fleet.pool_of[row])]
            flaw = pool.flaw(world.rules) or "an older generation"
            return f"{name} is in pool {pool.id}, which is not ready: {flaw}"
        case Kind.TAINTS:
            return f"{name} has the taint {_taints(row, option, world)}"
        case Kind.HELD:
            return f"{name} is held{_by(row, world)}"
        case Kind.CAPACITY:
            return _capacity(row, option, world)
        case Kind.COUNTERS:
            return _short(row, world)
        case Kind.GROUPS:
            why = modes.explain(np.array([row], dtype=np.intp), world)
            return f"{name} is excluded{f' ({why})' if why else ''}"
    return f"no node that was considered reaches {name}"


def _problem(row: int, option: RequestOption, gate: Gate, world: Snapshot) -> str:
    uses = (gate.use,) if gate.use is not None else option.selectors
    return next(filter(None, (problem(use, world.fleet, row) for use in uses)), "")


def _short(row: int, world: Snapshot) -> str:
    """The scarcest counters: a device that is gone altogether lacks them all."""
    found = of_device(row, world)
    if not found:
        return f"the pool of {world.fleet.id_of(row).device} has given out more than it has"
    scarcest = found[-MOST_COUNTERS:][::-1]
    more = f" (and of {len(found) - len(scarcest)} more counters)" if len(found) > len(scarcest) else ""
    return "; ".join(map(str, scarcest)) + more


def _by(row: int, world: Snapshot) -> str:
    claims = world.occupancy.claims_of(world.fleet.id_of(row))
    return f" by {', '.join(map(str, claims[:MOST_HOLDERS]))}" if claims else ""


def _taints(row: int, option: RequestOption, world: Snapshot) -> str:
    taints = world.fleet.words.taints.values[int(world.fleet.codes["taints"][row])]
    unbearable = [taint for taint in taints if not tolerated((taint,), option.source.tolerations)]
    return ", ".join(
        f"{taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}" for taint in unbearable
    )


def _capacity(row: int, option: RequestOption, world: Snapshot) -> str:
    name = world.fleet.id_of(row).device
    code = int(world.fleet.codes["shape"][row])
    taken = resolve(option, [code], world).get(code)
    if isinstance(taken, Fatal):
        return f"capacity of {name}: {taken}"
    if taken is None:
        return f"{name} does not offer the capacity that is asked for"
    consumed = world.occupancy.consumed.get(row, {})
    short = [
        f"{amount(consumed.get(key, 0) + wanted.nanos - taken.total[key])} {key}"
        for key, wanted in taken.taken.items()
        if consumed.get(key, 0) + wanted.nanos > taken.total[key]
    ]
    return f"short {', '.join(short)} of the capacity of {name}{_by(row, world) if consumed else ''}"
