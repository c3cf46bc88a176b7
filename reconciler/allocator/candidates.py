"""What one node offers to one ask, as masks over the node's devices.

Everything here depends on what is held before the decision, nothing on what the decision has taken
so far. The order of the tests is that of section 6.2.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from kernels.types import Codes, Mask, Rows
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
class Offer:
    """What a view offers to asks of one key, whatever is held. Kept with the view."""

    matching: Mask
    """(n,) selectors and node let it through"""
    suitable: Mask
    """(n,) nothing but what is held can stand against it"""
    fatal: Mask
    """(n,) looking at it is an error, unless it is in use"""
    consumption: Mapping[int, Consumption | Fatal | None]
    """Capacity shape -> what taking such a device consumes"""
    shape: Codes
    """(n,) capacity shape, -1 for devices without capacity"""


@dataclass(frozen=True, slots=True)
class Candidates:
    """The n devices of a view, for one ask, with what is held before the decision."""

    ask: Ask
    count: int
    """Devices wanted"""
    listed: Rows | None
    """Mode All: (count,) the devices, all of which are wanted; otherwise None"""
    available: Mask
    """(n,) could be taken as far as nothing of this decision stands against it"""
    fatal: Mask
    """(n,) looking at it is an error"""
    offer: Offer

    def failure(self, fleet: Fleet, row: int, at: int) -> Fatal:
        """The error of the device in fleet row `row`, which is `at` in the view."""
        consumption = self.offer.consumption.get(int(self.offer.shape[at]))
        if isinstance(consumption, Fatal) and self.offer.matching[at]:
            return consumption
        return failure(self.ask, fleet, row)

    def takes(self, at: int) -> Consumption | None:
        """What taking a device consumes of its capacities; None if it has none."""
        consumption = self.offer.consumption.get(int(self.offer.shape[at]))
        return consumption if isinstance(consumption, Consumption) else None


def find_candidates(ask: Ask, view: View, world: Snapshot) -> Candidates:
    """What a node offers to an ask. Raises Fatal where mode All finds something wrong (PREP-8)."""
    offer = view.memo.get(ask.key)
    if offer is None:
        offer = view.memo[ask.key] = _offer(ask, view, world)
    listed = _all(ask, view, world, offer) if ask.all else None
    occupancy = world.occupancy
    available, fatal = offer.suitable, offer.fatal
    if not ask.admin:
        free = ~view.of(occupancy.held)
        available, fatal = available & free, fatal & free
    # The first share of a device has drawn its counters for all later ones (CAP-13).
    available = available & (view.of(occupancy.fits) | view.of(occupancy.sharing))
    if occupancy.consumed and offer.consumption:
        available &= _beside(view.rows, offer, available, world)
    return Candidates(
        ask=ask,
        count=ask.source.wanted if listed is None else len(listed),
        listed=listed,
        available=available,
        fatal=fatal,
        offer=offer,
    )


def _offer(ask: Ask, view: View, world: Snapshot) -> Offer:
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
    suitable = matching & ~fatal & _large_enough(ask, consumption, shape) & taints_permit(ask, rows, world)
    if SKIP_OPERATIONS not in view.node.features:
        suitable &= fleet.codes["operations"][rows] < 0
    if not rules.has(PARTITIONABLE_DEVICES):
        suitable &= ~_draws(fleet, rows)
    return Offer(matching, suitable, fatal, consumption, shape)


def _draws(fleet: Fleet, rows: Rows) -> Mask:
    """(n,) whether a device draws from counters."""
    return np.any(fleet.sets[rows] >= 0, axis=1)


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
            found[code] = exc
    return found


def _large_enough(ask: Ask, consumption: Mapping[int, Consumption | Fatal | None], shape: Codes) -> Mask:
    """(n,) an untouched device has what is asked for (CAP-1, CAP-7, CAP-8)."""
    too_small = [
        code
        for code, taken in consumption.items()
        if taken is None or (isinstance(taken, Consumption) and not taken.fits({}))
    ]
    large = ~np.isin(shape, too_small)
    return large & (shape >= 0) if ask.capacity else large


def _beside(rows: Rows, offer: Offer, among: Mask, world: Snapshot) -> Mask:
    """(n,) whether the amounts fit beside what shares consume already (CAP-8). Only `among` is looked at."""
    fits = np.ones(len(rows), dtype=np.bool_)
    shared = world.occupancy.consumed
    for at in np.flatnonzero(among & world.occupancy.sharing[rows]).tolist():
        taken = offer.consumption.get(int(offer.shape[at]))
        if isinstance(taken, Consumption):
            fits[at] = taken.fits(shared.get(int(rows[at]), {}))
    return fits


def capacity_permits(ask: Ask, rows: Rows, world: Snapshot) -> Mask:
    """(n,) the device has the capacity that is asked for, beside what shares consume already."""
    shape = world.fleet.codes["shape"][rows]
    consumption = _consumption(ask, np.unique(shape).tolist(), world.fleet, world.rules)
    large = _large_enough(ask, consumption, shape)
    nobody = np.zeros(len(rows), dtype=np.bool_)
    return large & _beside(rows, Offer(nobody, nobody, nobody, consumption, shape), large, world)


def counters_permit(rows: Rows, world: Snapshot) -> Mask:
    """(n,) what the device draws from counters is left, or has been drawn by an earlier share (CAP-13)."""
    if not world.rules.has(PARTITIONABLE_DEVICES):
        return ~_draws(world.fleet, rows)
    return world.occupancy.fits[rows] | world.occupancy.sharing[rows]


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


def _all(ask: Ask, view: View, world: Snapshot, offer: Offer) -> Rows:
    """(count,) the devices that mode All wants, whatever their state (PREP-8)."""
    rows, shape = view.rows, offer.shape
    broken = np.flatnonzero(offer.fatal)
    first_error = int(broken[0]) if len(broken) else len(rows)
    start = 0
    for pool in view.pools:
        if pool.usable is not Usable.YES and start <= first_error:
            incomplete = pool.usable is Usable.INCOMPLETE
            raise Fatal(
                Reason.INCOMPLETE_POOL if incomplete else Reason.INVALID_POOL,
                f"{ask.name} wants all devices, but pool {pool.pool} is {pool.usable.value}: {pool.problem}",
            )
        start += len(pool.rows)
    if len(broken):
        taken = offer.consumption.get(int(shape[first_error]))
        if isinstance(taken, Fatal) and offer.matching[first_error]:
            raise taken
        raise failure(ask, world.fleet, int(rows[first_error]))
    wanted = offer.matching
    if world.rules.has(CONSUMABLE_CAPACITY):
        wanted = wanted & _large_enough(ask, offer.consumption, shape)
        if world.rules.old:
            wanted = wanted & _beside(rows, offer, wanted, world)
    return np.flatnonzero(wanted)
