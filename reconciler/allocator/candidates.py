"""What one node offers to one ask, as masks over the node's devices.

Everything here depends on what is held before the decision, nothing on what the decision has taken
so far. The order of the tests is that of section 6.2.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from kernels.types import Mask, Rows
from reconciler.allocator.asks import Ask
from reconciler.allocator.capacity import Consumption, consume
from reconciler.allocator.refusal import Fatal
from reconciler.allocator.sight import failure, look
from reconciler.inventory.fleet import Fleet
from reconciler.inventory.pool import Usable
from reconciler.inventory.snapshot import Snapshot, View
from reconciler.objects.plan import Reason
from reconciler.objects.requests import DeviceToleration
from reconciler.objects.semantics import CONSUMABLE_CAPACITY, PARTITIONABLE_DEVICES, TAINTS, Semantics
from reconciler.objects.slices import DeviceTaint

SKIP_OPERATIONS = "DRAOptionalNodeOperations"
"""The node feature without which devices that skip node operations cannot be used there."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """The n devices of a view, for one ask."""

    ask: Ask
    count: int
    """Devices wanted"""
    listed: Rows | None
    """Mode All: (count,) the devices, all of which are wanted; otherwise None"""
    matching: Mask
    """(n,) selectors and node let it through"""
    available: Mask
    """(n,) could be taken as far as nothing of this decision stands against it"""
    fatal: Mask
    """(n,) looking at it is an error, unless it is in use"""
    consumption: Mapping[int, Consumption | Fatal | None]
    """Capacity shape -> what taking such a device consumes"""
    shape: np.ndarray
    """(n,) capacity shape, -1 for devices without capacity"""

    def failure(self, fleet: Fleet, row: int, at: int) -> Fatal:
        """The error of the device in fleet row `row`, which is `at` in the view."""
        consumption = self.consumption.get(int(self.shape[at]))
        return consumption if isinstance(consumption, Fatal) else failure(self.ask, fleet, row)

    def takes(self, at: int) -> Consumption | None:
        """What taking a device consumes of its capacities; None if it has none."""
        consumption = self.consumption.get(int(self.shape[at]))
        return consumption if isinstance(consumption, Consumption) else None


def find_candidates(ask: Ask, view: View, world: Snapshot) -> Candidates:
    """What a node offers to an ask. Raises Fatal where mode All finds something wrong (PREP-8)."""
    fleet, rules, rows = world.fleet, world.rules, view.rows
    sight = look(ask, fleet)
    eligible = np.ones(len(rows), dtype=np.bool_)
    if not rules.binding_conditions:
        bindings = fleet.words.bindings.values
        waiting = [code for code, binding in enumerate(bindings) if binding.conditions]
        eligible &= ~np.isin(fleet.codes["binding"][rows], waiting)
    fatal = sight.error[rows] & eligible
    matching = sight.true[rows] & eligible & view.here
    shape = fleet.codes["shape"][rows]
    consumption = _consumption(ask, np.unique(shape[matching]).tolist(), fleet, rules)
    spoiled = [code for code, taken in consumption.items() if isinstance(taken, Fatal)]
    fatal |= matching & np.isin(shape, spoiled)
    listed = _all(ask, view, world, matching, fatal, consumption, shape) if ask.all else None
    fits = matching & _roomy(ask, rows, matching, consumption, shape, world)
    free = np.ones(len(rows), dtype=np.bool_) if ask.admin else ~world.occupancy.held[rows]
    available = fits & free & _permitted(ask, view, world)
    return Candidates(
        ask=ask,
        count=ask.source.wanted if listed is None else len(listed),
        listed=listed,
        matching=matching,
        available=available & ~fatal,
        fatal=fatal & free,
        consumption=consumption,
        shape=shape,
    )


def _consumption(
    ask: Ask, shapes: list[int], fleet: Fleet, rules: Semantics
) -> dict[int, Consumption | Fatal | None]:
    found: dict[int, Consumption | Fatal | None] = {}
    if not rules.has(CONSUMABLE_CAPACITY):
        return found
    for code in shapes:
        if code < 0:
            continue
        try:
            found[code] = consume(fleet.words.shapes.values[code], ask.capacity, rules)
        except Fatal as exc:
            found[code] = Fatal(exc.reason, f"{ask.device_class.key.name}: {exc}")
    return found


def capacity_permits(ask: Ask, rows: Rows, world: Snapshot) -> Mask:
    """(n,) the device has the capacity that is asked for, beside what shares consume already."""
    shape = world.fleet.codes["shape"][rows]
    consumption = _consumption(ask, np.unique(shape).tolist(), world.fleet, world.rules)
    everything = np.ones(len(rows), dtype=np.bool_)
    return _roomy(ask, rows, everything, consumption, shape, world)


def _roomy(
    ask: Ask,
    rows: Rows,
    matching: Mask,
    consumption: Mapping[int, Consumption | Fatal | None],
    shape: np.ndarray,
    world: Snapshot,
) -> Mask:
    """(n,) CAP-1, CAP-7 and CAP-8; meaningful where `matching`."""
    roomy: Mask = ~np.isin(shape, [code for code, taken in consumption.items() if taken is None])
    if ask.capacity:
        roomy &= shape >= 0
    return roomy & _beside(rows, matching, consumption, shape, world)


def _beside(
    rows: Rows,
    matching: Mask,
    consumption: Mapping[int, Consumption | Fatal | None],
    shape: np.ndarray,
    world: Snapshot,
) -> Mask:
    """(n,) whether the amounts fit beside what shares consume already (CAP-8)."""
    fits = np.ones(len(rows), dtype=np.bool_)
    for code, taken in consumption.items():
        if isinstance(taken, Consumption) and not taken.fits({}):
            fits &= shape != code
    shared = world.occupancy.consumed
    for at in np.flatnonzero(matching & fits & world.occupancy.sharing[rows]).tolist():
        taken = consumption.get(int(shape[at]))
        if isinstance(taken, Consumption):
            fits[at] = taken.fits(shared.get(int(rows[at]), {}))
    return fits


def _permitted(ask: Ask, view: View, world: Snapshot) -> Mask:
    """(n,) operations, counters and taints do not stand against the device (steps 4 to 8)."""
    permitted = counters_permit(view.rows, world) & taints_permit(ask, view.rows, world)
    if SKIP_OPERATIONS not in view.node.features:
        permitted &= world.fleet.codes["operations"][view.rows] < 0
    return permitted


def counters_permit(rows: Rows, world: Snapshot) -> Mask:
    """(n,) what the device draws from counters is left, or has been drawn by an earlier share (CAP-13)."""
    permitted = np.logical_not((world.fleet.sets[rows] >= 0).any(axis=1))
    if world.rules.has(PARTITIONABLE_DEVICES):
        permitted |= world.occupancy.fits[rows] | world.occupancy.sharing[rows]
    return permitted


def taints_permit(ask: Ask, rows: Rows, world: Snapshot) -> Mask:
    """(n,) the ask tolerates every taint of the device that keeps requests away."""
    permitted = np.ones(len(rows), dtype=np.bool_)
    if world.rules.has(TAINTS):
        codes = world.fleet.codes["taints"][rows]
        for code in np.unique(codes[codes >= 0]).tolist():
            if not tolerated(world.fleet.words.taints.values[code], ask.source.tolerations):
                permitted &= codes != code
    return permitted


def tolerated(taints: tuple[DeviceTaint, ...], tolerations: tuple[DeviceToleration, ...]) -> bool:
    """Whether every taint that keeps requests away is tolerated (TNT-1, TNT-8)."""
    keeping = [taint for taint in taints if taint.effect in ("NoSchedule", "NoExecute")]
    return all(any(_tolerates(toleration, taint) for toleration in tolerations) for taint in keeping)


def _tolerates(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    """TNT-2."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in ("", "Equal") and toleration.value == taint.value


def _all(
    ask: Ask,
    view: View,
    world: Snapshot,
    matching: Mask,
    fatal: Mask,
    consumption: Mapping[int, Consumption | Fatal | None],
    shape: np.ndarray,
) -> Rows:
    """(count,) the devices that mode All wants, whatever their state (PREP-8)."""
    rows = view.rows
    broken = np.flatnonzero(fatal)
    first_error = int(broken[0]) if len(broken) else len(rows)
    start = 0
    for pool in view.pools:
        if pool.usable is not Usable.YES and start <= first_error:
            reason = Reason.INCOMPLETE_POOL if pool.usable is Usable.INCOMPLETE else Reason.INVALID_POOL
            raise Fatal(
                reason,
                f"{ask.name} wants all devices, but pool {pool.pool} is {pool.usable.value}: {pool.problem}",
            )
        start += len(pool.rows)
    if len(broken):
        row = int(rows[first_error])
        taken = consumption.get(int(shape[first_error]))
        raise taken if isinstance(taken, Fatal) and matching[first_error] else failure(ask, world.fleet, row)
    wanted = matching.copy()
    if world.rules.has(CONSUMABLE_CAPACITY):
        for code in np.unique(shape[matching]).tolist():
            taken = consumption.get(code)
            large_enough = isinstance(taken, Consumption) and taken.fits({})
            if ask.capacity if code < 0 else not large_enough:
                wanted &= shape != code
        if world.rules.old:
            wanted &= _beside(rows, matching, consumption, shape, world)
    return np.flatnonzero(wanted)
