"""The gates between a request and a device: each is a mask over the whole fleet, independent of the others.

The order is fixed: attributes of the device, state of its pool, allocations, and the nodes that reach it.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct

from kernels.groups import distinct
from kernels.types import Mask
from reconciler.allocation.dra.budget import Fatal
from reconciler.allocation.dra.candidates import capacity_permits, counters_permit, not_excluded
from reconciler.allocation.dra.request_options import RequestOption, SelectorUse
from reconciler.allocation.dra.static_match import disabled_features, disabled_for, resolve, taints_permit
from reconciler.allocation.reasons.explanation import Kind
from reconciler.api.objects.semantics import COMPATIBILITY_GROUPS, PARTITIONABLE_DEVICES
from reconciler.cel.program import CelRefused, compile_selector
from reconciler.state.devices.fleet import Fleet
from reconciler.state.devices.node_reach import NodeReach
from reconciler.state.devices.readiness import readiness
from reconciler.state.devices.snapshot import Snapshot

SELECTION = frozenset({Kind.CLASS, Kind.SELECTOR, Kind.FEATURE, Kind.POOL, Kind.CAPACITY, Kind.NODES})
"""Gates that select the devices of a request for all devices; the other gates test whether they are free."""


class Gate(Struct, frozen=True, eq=False):
    """A test of single devices."""

    kind: Kind
    about: str
    """The text for users, with the class or selector; unique among the gates of a request"""
    passed: Mask
    """(D,)"""
    error: Mask | None = None
    """(D,) the test fails with an error; disjoint from `passed`. None if there are no errors"""
    use: SelectorUse | None = None
    """The expression, if the gate is a selector"""


def gates_of(option: RequestOption, snapshot: Snapshot, reach: NodeReach) -> list[Gate]:
    """The gates of a request, in order. Gates in _RARE are left out if they stop no device."""
    return [
        gate for gate in _gates(option, snapshot, reach) if gate.kind not in _RARE or not gate.passed.all()
    ]


_RARE = frozenset({Kind.FEATURE, Kind.POOL, Kind.GROUPS})


def _gates(option: RequestOption, snapshot: Snapshot, reach: NodeReach) -> Iterator[Gate]:
    fleet, occupancy = snapshot.fleet, snapshot.occupancy
    rows = np.arange(fleet.size)
    of_class = len(option.device_class.spec.selectors)
    yield _class(option, option.selectors[:of_class], fleet)
    for number, use in enumerate(option.selectors[of_class:]):
        passed, error = _answers(use, fleet)
        yield Gate(Kind.SELECTOR, f"selector #{number}", passed, error, use)
    yield Gate(Kind.FEATURE, "enabled features", _supported(option, snapshot))
    yield Gate(Kind.POOL, "complete and valid pools", readiness(snapshot.topology, reach.chosen).ready)
    yield Gate(Kind.TAINTS, "tolerated taints", taints_permit(option, rows, snapshot))
    yield Gate(Kind.HELD, "not held by other claims", ~occupancy.held | option.admin)
    yield _capacity(option, snapshot)
    yield Gate(Kind.COUNTERS, "counters", _counters(option, snapshot))
    yield Gate(
        Kind.GROUPS,
        "not excluded by held devices",
        not_excluded(option, rows, snapshot) | _silenced(snapshot),
    )
    yield Gate(Kind.NODES, "reachable from considered nodes", reach.reached())


def _class(option: RequestOption, uses: Sequence[SelectorUse], fleet: Fleet) -> Gate:
    alive, failed = np.ones(fleet.size, dtype=np.bool_), np.zeros(fleet.size, dtype=np.bool_)
    for use in uses:
        passed, error = _answers(use, fleet)
        failed |= alive & error
        alive &= passed
    return Gate(Kind.CLASS, f"class {option.device_class.key.name}", alive, failed)


def _answers(use: SelectorUse, fleet: Fleet) -> tuple[Mask, Mask]:
    """(D,) where an expression is true, and where it fails: everywhere if it does not compile (SEL-3)."""
    try:
        masks = compile_selector(use.expression).masks(fleet.cel)
    except CelRefused:
        return np.zeros(fleet.size, dtype=np.bool_), np.ones(fleet.size, dtype=np.bool_)
    return masks.true, masks.error


def problem(use: SelectorUse, fleet: Fleet, row: int) -> str:
    """The error of an expression on a device where it fails."""
    try:
        return compile_selector(use.expression).explain(fleet.cel, row)
    except CelRefused as refused:
        return str(refused)


def _supported(option: RequestOption, snapshot: Snapshot) -> Mask:
    """(D,) devices that need no disabled feature (SEL-1, POOL-2, GRP-7, SCC-4)."""
    passed = np.ones(snapshot.fleet.size, dtype=np.bool_)
    for gate, needing in disabled_for(option, snapshot).items():
        # Further shares of a device with groups are not tested (GRP-5).
        passed &= ~needing | (snapshot.occupancy.sharing if gate == COMPATIBILITY_GROUPS else False)
    return passed


def _silenced(snapshot: Snapshot) -> Mask:
    """(D,) devices with groups while their gate is off: not what is held excludes them."""
    silenced = disabled_features(snapshot.topology).get(COMPATIBILITY_GROUPS)
    return np.zeros(snapshot.fleet.size, dtype=np.bool_) if silenced is None else silenced


def _capacity(option: RequestOption, snapshot: Snapshot) -> Gate:
    """An amount that cannot be represented is an error on each device with that request policy."""
    shape = snapshot.fleet.codes["shape"]
    passed = capacity_permits(option, np.arange(snapshot.fleet.size), snapshot)
    resolved = resolve(option, distinct(shape).tolist(), snapshot)
    error = np.isin(shape, [code for code, taken in resolved.items() if isinstance(taken, Fatal)])
    return Gate(Kind.CAPACITY, "capacity", passed & ~error, error)


def _counters(option: RequestOption, snapshot: Snapshot) -> Mask:
    """(D,) `counters_permit`; all devices while the feature is off, which is a gate of its own."""
    size = snapshot.fleet.size
    if not snapshot.rules.has(PARTITIONABLE_DEVICES):
        return np.ones(size, dtype=np.bool_)
    return counters_permit(option, np.arange(size), snapshot)
