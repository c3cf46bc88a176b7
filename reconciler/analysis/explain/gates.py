"""The gates between a request option and a device, each as a mask over the whole fleet, judged on its own.

The order is fixed: what a device is, then what its slices lack, then what is held, then where it is.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from kernels.fit import fits
from kernels.types import Mask
from reconciler.allocation.dra.candidates import capacity_permits, not_excluded
from reconciler.allocation.dra.refusal import Fatal
from reconciler.allocation.dra.request_options import RequestOption, SelectorUse
from reconciler.allocation.dra.static_match import draws, resolve, taints_permit
from reconciler.allocation.reasons.kinds import Kind
from reconciler.analysis.explain.places import Places
from reconciler.api.objects.semantics import PARTITIONABLE_DEVICES
from reconciler.cel.program import CelRefused, compile_selector
from reconciler.state.devices.pools.fleet import Fleet
from reconciler.state.devices.snapshot.snapshot import Snapshot

SELECTION = frozenset({Kind.CLASS, Kind.SELECTOR, Kind.FEATURE, Kind.POOL, Kind.CAPACITY, Kind.NODES})
"""Gates that say which devices are meant when all are wanted; the others say whether they can be had."""


@dataclass(frozen=True, slots=True, eq=False)
class Gate:
    """One test of single devices."""

    kind: Kind
    about: str
    """What it tests, in words that name class, selector or request; unique among the gates of an option"""
    passed: Mask
    """(D,)"""
    error: Mask | None = None
    """(D,) the test fails with an error; disjoint from `passed`. None if none does"""
    use: SelectorUse | None = None
    """The expression, for gates that are one"""


def gates_of(option: RequestOption, world: Snapshot, places: Places) -> list[Gate]:
    """The gates of an option, in order. Gates for features, pools and groups only if they stop a device."""
    return [gate for gate in _gates(option, world, places) if gate.kind not in _RARE or not gate.passed.all()]


_RARE = frozenset({Kind.FEATURE, Kind.POOL, Kind.GROUPS})


def _gates(option: RequestOption, world: Snapshot, places: Places) -> Iterator[Gate]:
    fleet, occupancy = world.fleet, world.occupancy
    rows = np.arange(fleet.size)
    of_class = len(option.device_class.spec.selectors)
    yield _class(option, option.selectors[:of_class], fleet)
    for number, use in enumerate(option.selectors[of_class:]):
        passed, error = _answers(use, fleet)
        yield Gate(Kind.SELECTOR, f"selector #{number}", passed, error, use)
    yield Gate(Kind.FEATURE, "features that are on", _supported(world))
    yield Gate(Kind.POOL, "complete and valid pools", ready(world))
    yield Gate(Kind.TAINTS, "tolerated taints", taints_permit(option, rows, world))
    yield Gate(Kind.HELD, "not held by others", ~occupancy.held | option.admin)
    yield _capacity(option, world)
    yield Gate(Kind.COUNTERS, "counters", _counters(world))
    yield Gate(Kind.GROUPS, "not excluded by what is held", not_excluded(rows, world))
    yield Gate(Kind.NODES, "reached by the nodes considered", places.reached())


def _class(option: RequestOption, uses: Sequence[SelectorUse], fleet: Fleet) -> Gate:
    alive, failed = np.ones(fleet.size, dtype=np.bool_), np.zeros(fleet.size, dtype=np.bool_)
    for use in uses:
        passed, error = _answers(use, fleet)
        failed |= alive & error
        alive &= passed
    return Gate(Kind.CLASS, f"class {option.device_class.key.name}", alive, failed)


def _answers(use: SelectorUse, fleet: Fleet) -> tuple[Mask, Mask]:
    """(D,) where an expression is true, and where it fails: everywhere if it cannot be compiled (SEL-3)."""
    try:
        masks = compile_selector(use.expression).masks(fleet.cel)
    except CelRefused:
        return np.zeros(fleet.size, dtype=np.bool_), np.ones(fleet.size, dtype=np.bool_)
    return masks.true, masks.error


def problem(use: SelectorUse, fleet: Fleet, row: int) -> str:
    """What goes wrong when an expression is tried on a device where it fails."""
    try:
        return compile_selector(use.expression).explain(fleet.cel, row)
    except CelRefused as refused:
        return str(refused)


def _supported(world: Snapshot) -> Mask:
    """(D,) devices that need no feature which is off (SEL-1, POOL-2)."""
    fleet, rules = world.fleet, world.rules
    found = np.ones(fleet.size, dtype=np.bool_)
    if not rules.binding_conditions:
        bindings = fleet.words.bindings.values
        waiting = [code for code, binding in enumerate(bindings) if binding.conditions]
        found &= ~np.isin(fleet.codes["binding"], waiting)
    if not rules.has(PARTITIONABLE_DEVICES):
        found &= ~draws(fleet, np.arange(fleet.size))
        for at, pool in enumerate(fleet.pools):
            for number, block in enumerate(pool.blocks):
                spec = block.slice.spec
                if spec.per_device_node_selection is not None or spec.shared_counters:
                    start = int(fleet.start[at])
                    found[start + pool.offsets[number] : start + pool.offsets[number + 1]] = False
    return found


def ready(world: Snapshot) -> Mask:
    """(D,) devices of pools that are complete and valid, as far as slices alone can tell."""
    pieces = [pool.offered(world.rules) for pool in world.fleet.pools]
    return np.concatenate(pieces) if pieces else np.zeros(0, dtype=np.bool_)


def _capacity(option: RequestOption, world: Snapshot) -> Gate:
    """An amount that cannot be represented is an error on every device that would be asked for it."""
    shape = world.fleet.codes["shape"]
    passed = capacity_permits(option, np.arange(world.fleet.size), world)
    resolved = resolve(option, np.unique(shape).tolist(), world)
    error = np.isin(shape, [code for code, taken in resolved.items() if isinstance(taken, Fatal)])
    return Gate(Kind.CAPACITY, "capacity", passed & ~error, error)


def _counters(world: Snapshot) -> Mask:
    """(D,) its draw is left, in a pool that is not over-committed (CTR-6), or was drawn before (CAP-13)."""
    fleet, occupancy = world.fleet, world.occupancy
    if not world.rules.has(PARTITIONABLE_DEVICES):
        return np.ones(fleet.size, dtype=np.bool_)
    fine = fits(occupancy.left, fleet.table, fleet.sets, fleet.draws)
    over = (occupancy.left < 0).any(axis=1)
    if over.any():
        groups = fleet.set_group[over]
        fine &= ~((fleet.sets >= 0) & np.isin(fleet.set_group[fleet.sets], groups)).any(axis=1)
    return fine | occupancy.sharing
