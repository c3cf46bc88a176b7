"""The holds as columns over one fleet, updated device by device. Source: CTR-2, AS-4."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import field
from typing import Any, TypedDict, TypeVar
from weakref import ref

import numpy as np

from kernels.fit import fits, fits_required, required, total_draw
from kernels.types import Amounts, Bits, Codes, Mask, Rows
from reconciler.api.objects.meta import DeviceID, ObjectKey, PoolID
from reconciler.api.objects.value import value
from reconciler.state.devices.exclusion.occupancy import NO_ROWS, ScopeOccupancy
from reconciler.state.devices.occupancy.ledger import NOTHING, Ledger
from reconciler.state.devices.occupancy.overcharge import Overcharge, overcharge_of, without_device
from reconciler.state.devices.occupancy.retained_draws import RetainedDraws
from reconciler.state.devices.occupancy.trail import LONGEST_TRAIL, Trail
from reconciler.state.devices.pools.assembly import Layout
from reconciler.state.devices.pools.fleet import Fleet

Array = TypeVar("Array", bound=np.ndarray[Any, Any])


@value(eq=False, weakref_slot=True)
class Occupancy:
    """Columns of D devices and S counter sets. Frozen while this object is referenced."""

    held: Mask
    """(D,) held exclusively by a claim"""
    sharing: Mask
    """(D,) held in shares"""
    left: Amounts
    """(S, C) what is left of the counter sets; negative if over-committed"""
    fits: Mask
    """(D,) the device's draw fits in what is left, its pool is not over-committed (CTR-6), and it is open"""
    free: Mask
    """(D,) not held, and either fits or held in shares: a plain request could take the device"""
    open: Mask | None
    """(D,) no held device excludes this one; part of `fits`. None if no device excludes others"""
    common: Bits | None
    """(scopes, W) names that all held devices of a scope share"""
    consumed: Mapping[int, Mapping[str, int]]
    """row of a shared device -> capacity key -> billionths consumed"""
    consumption: Codes
    """(D,) number in `consumptions` of what shares consume of a device; 0 for nothing"""
    consumptions: "Consumptions"
    overcharges: Mapping[PoolID, Overcharge]
    """What held devices are charged beyond their current slices; part of `left`. Few pools have any"""
    claims_of: Callable[[DeviceID], tuple[ObjectKey, ...]]
    """The current holders of a device, maybe newer than this snapshot: for messages, not for decisions"""
    trail: Trail
    serial: int
    """Position in the trail"""
    held_for: Mapping[int, str] = field(default_factory=dict)
    """row of a nominated device -> for whom it is held, and until when; see `state.nominations`"""
    base: "Occupancy | None" = None
    """Without the nominations. Referenced so that arrays that both have stay frozen"""


class Consumptions:
    """The distinct amounts that shares consume of devices. Numbers stay valid: amounts are only added.

    The amounts are unbounded integers, so columns hold their numbers.
    """

    def __init__(self) -> None:
        self.values: list[Mapping[str, int]] = [NOTHING]
        self._number: dict[tuple[tuple[str, int], ...], int] = {(): 0}

    def number(self, consumed: Mapping[str, int]) -> int:
        """The number of amounts, a new one if they are new."""
        key = tuple(sorted(consumed.items()))
        found = self._number.get(key)
        if found is None:
            found = self._number[key] = len(self.values)
            self.values.append(consumed)
        return found

    def fork(self) -> "Consumptions":
        """The same numbers; both add their own from now on."""
        other = Consumptions()
        other.values, other._number = list(self.values), dict(self._number)
        return other


MOST_CONSUMPTIONS = 4096
"""Distinct amounts beyond the number of devices, after which those in use are numbered anew."""


class _Views(TypedDict):
    """Read-only views of the arrays."""

    held: Mask
    sharing: Mask
    left: Amounts
    fits: Mask
    free: Mask
    consumption: Codes


class Columns:
    """The mutable columns. They are copied before a change only if a frozen `Occupancy` is still in use."""

    def __init__(
        self,
        fleet: Fleet,
        ledger: Ledger,
        retained: RetainedDraws,
        layout: Layout | None = None,
        previous: "Columns | None" = None,
    ) -> None:
        """Computed from the ledger; given the previous columns, only for fresh pools."""
        self.fleet = fleet
        self._ledger = ledger
        self._retained = retained
        self._held = np.zeros(fleet.size, dtype=np.bool_)
        self._sharing = np.zeros(fleet.size, dtype=np.bool_)
        self._fits = np.zeros(fleet.size, dtype=np.bool_)
        self._free = np.zeros(fleet.size, dtype=np.bool_)
        self._consumed: dict[int, Mapping[str, int]] = {}
        self._consumption = np.zeros(fleet.size, dtype=np.int32)
        self._consumptions = Consumptions()
        self._left = fleet.totals.copy()
        fresh = np.arange(fleet.size)
        if layout is None or previous is None:
            for device in ledger.devices():
                for row in fleet.rows_of(device):
                    self._read(row, device)
        else:
            fresh = self._copy_unchanged(layout, previous)
            for pool in layout.fresh():
                for name in ledger.held_in(pool.id):
                    device = DeviceID(*pool.id, name)
                    for row in fleet.rows_of(device):
                        self._read(row, device)
        taken = fresh[self._held[fresh] | self._sharing[fresh]]
        self._left -= total_draw(len(fleet.totals), fleet.table, fleet.sets[taken], fleet.draws[taken])
        self._overcharges = self._charge_retained(layout, previous)
        self._overcommitted: Mask = np.any(self._left < 0, axis=1)
        self._any_overcommitted = bool(self._overcommitted.any())
        self._required_of_set: dict[int, Amounts | None] = {}
        self._required_of_draws: dict[bytes, Amounts] = {}
        self._scopes = None
        if fleet.exclusion is not None:
            self._scopes = ScopeOccupancy(fleet.exclusion, self._held | self._sharing)
        self._evaluate(fresh)
        self._trail = Trail()
        self._views = self._read_only()
        self._frozen: list[ref[Occupancy]] = []
        """What was frozen since the arrays were copied; several if fleets follow one another"""

    def follow(self, fleet: Fleet, layout: Layout) -> bool:
        """Serve the fleet of a layout from now on, if every column stays as it is; return whether it does.

        Rows and counters must stay, the same devices must exclude one another, and no held device may be
        charged differently.
        """
        previous = self.fleet
        if layout.replaced is None or layout.previous is not previous:
            return False
        if fleet.exclusion is not previous.exclusion or fleet.table is not previous.table:
            return False
        for at in layout.replaced:
            pool = fleet.pools[at]
            if not pool.is_named_like(previous.pools[at]):
                return False
            retained, charged = self._retained.of(pool.id), self._overcharges.get(pool.id)
            overcharge = overcharge_of(pool, retained, fleet.table) if retained else None
            if (overcharge or None) != charged:
                return False
        self.fleet, self._trail = fleet, Trail()
        return True

    def _copy_unchanged(self, layout: Layout, previous: "Columns") -> Rows:
        """Copy the rows of unchanged pools; return the rows of the others."""
        fresh = [np.zeros(0, dtype=np.intp)]
        shift = np.zeros(previous.fleet.size, dtype=np.intp)
        kept = np.zeros(previous.fleet.size, dtype=np.bool_)
        for run in layout.runs:
            rows = layout.rows(run)
            if run.before < 0:
                fresh.append(np.arange(rows.start, rows.stop))
                continue
            old = layout.old_rows(run)
            self._held[rows] = previous._held[old]
            self._sharing[rows] = previous._sharing[old]
            self._fits[rows] = previous._fits[old]
            self._free[rows] = previous._free[old]
            width = previous._left.shape[1]
            self._left[layout.sets(run), :width] = previous._left[layout.old_sets(run)]
            kept[old], shift[old] = True, rows.start - old.start
        for row, consumed in previous._consumed.items():
            if kept[row]:
                self._consume(row + int(shift[row]), consumed)
        return np.concatenate(fresh)

    def _charge_retained(self, layout: Layout | None, previous: "Columns | None") -> dict[PoolID, Overcharge]:
        """Charge retained draws to fresh pools; the other pools are charged already."""
        found: dict[PoolID, Overcharge] = {}
        fresh: Collection[PoolID] = self._retained.pools()
        if layout is not None and previous is not None:
            fresh = {pool.id for pool in layout.fresh()}
            found = {
                pool: overcharge
                for pool, overcharge in previous._overcharges.items()
                if pool not in fresh and pool in self.fleet.index
            }
        for pool in self._retained.pools():
            if pool in fresh and pool in self.fleet.index:
                at = self.fleet.index[pool]
                overcharge = overcharge_of(self.fleet.pools[at], self._retained.of(pool), self.fleet.table)
                if overcharge:
                    found[pool] = overcharge
                for place, units in overcharge.charged.items():
                    self._left[int(self.fleet.first_set[at]) + place.set, place.counter] -= units
        return found

    def fork(self, fleet: Fleet, ledger: Ledger, retained: RetainedDraws) -> "Columns":
        """The same columns over forks of fleet, ledger and retained draws; both change independently."""
        other = copy(self)
        other.fleet, other._ledger, other._retained = fleet, ledger, retained
        other._overcommitted = self._overcommitted.copy()
        other._required_of_set = dict(self._required_of_set)
        other._required_of_draws = dict(self._required_of_draws)
        other._scopes = self._scopes.fork() if self._scopes is not None else None
        other._consumptions = self._consumptions.fork()
        other._trail = Trail()
        other._copy()
        return other

    def freeze(self) -> Occupancy:
        """The current columns, frozen."""
        alive = self._alive()
        for known in alive:
            if known.trail is self._trail and known.serial == len(self._trail):
                return known
        occupancy = Occupancy(
            **self._views,
            open=self._scopes.open if self._scopes is not None else None,
            common=self._scopes.names if self._scopes is not None else None,
            consumed=self._consumed,
            consumptions=self._consumptions,
            overcharges=self._overcharges,
            claims_of=self._ledger.claims,
            trail=self._trail,
            serial=len(self._trail),
        )
        self._frozen = [ref(one) for one in (*alive, occupancy)]
        return occupancy

    def _alive(self) -> list[Occupancy]:
        """What still uses the arrays. A list of weak references: a weak set costs a claim some microseconds."""
        return [known for frozen in self._frozen if (known := frozen()) is not None]

    def update(self, changed: Iterable[DeviceID]) -> None:
        """Follow the ledger for some devices; re-evaluate only devices that share a counter set with them."""
        if self._frozen and self._alive():
            self._copy()
        rows: list[int] = []
        changed_rows: list[int] = []
        relieved: set[int] = set()
        for device in changed:
            if self._overcharges:
                relieved |= self._drop_overcharge(device)
            for row in self.fleet.rows_of(device):
                rows.append(row)
                if self._read(row, device):
                    changed_rows.append(row)
        again = NO_ROWS
        if relieved or (changed_rows and (self._scopes is not None or self.fleet.sets.shape[1])):
            again = self._evaluate_affected(changed_rows, relieved)
            seen = set(again.tolist())
            rows = [row for row in rows if row not in seen]
        if rows:
            apart = np.array(rows, dtype=np.intp)
            self._free[apart] = (self._fits[apart] | self._sharing[apart]) & ~self._held[apart]
            again = np.concatenate([again, apart]) if len(again) else apart
        if len(again):
            self._record(again)

    def _drop_overcharge(self, device: DeviceID) -> set[int]:
        """Drop the overcharge of a device that no claim holds any more; return its counter sets."""
        overcharge = self._overcharges.get(device.pool_id)
        if overcharge is None or device.device in self._retained.of(device.pool_id):
            return set()
        at = self.fleet.index[device.pool_id]
        remaining = without_device(self.fleet.pools[at], overcharge, device.device, self.fleet.table)
        if remaining.of_device == overcharge.of_device and remaining.lost == overcharge.lost:
            return set()
        first = int(self.fleet.first_set[at])
        relieved = {first + place.set for place in overcharge.of_device.get(device.device, ())}
        for place, units in overcharge.charged.items():
            self._left[first + place.set, place.counter] += units - remaining.charged.get(place, 0)
        if remaining:
            self._overcharges[device.pool_id] = remaining
        else:
            del self._overcharges[device.pool_id]
        if not relieved or any(not len(self.fleet.by_set.of(number)) for number in relieved):
            self._trail = Trail()  # no row represents this change
        return relieved

    def _record(self, rows: Rows) -> None:
        if len(self._trail) >= LONGEST_TRAIL:
            self._trail = Trail()
        self._trail.add(rows)

    def _copy(self) -> None:
        self._held, self._sharing = self._held.copy(), self._sharing.copy()
        self._left, self._fits, self._free = self._left.copy(), self._fits.copy(), self._free.copy()
        self._consumption = self._consumption.copy()
        self._consumed = dict(self._consumed)
        self._overcharges = dict(self._overcharges)
        self._views = self._read_only()
        self._frozen = []

    def _read_only(self) -> _Views:
        return _Views(
            held=_read_only(self._held),
            sharing=_read_only(self._sharing),
            left=_read_only(self._left),
            fits=_read_only(self._fits),
            free=_read_only(self._free),
            consumption=_read_only(self._consumption),
        )

    def _read(self, row: int, device: DeviceID) -> bool:
        """Read the state of a device; return whether it was taken or released."""
        state = self._ledger.state(device)
        before = self._held[row] or self._sharing[row]
        self._held[row] = held = bool(state.alone)
        self._sharing[row] = sharing = bool(state.shares)
        if sharing:
            self._consume(row, state.consumed)
        elif self._consumed.pop(row, None) is not None:
            self._consumption[row] = 0
        return bool(before != (held or sharing))

    def _consume(self, row: int, consumed: Mapping[str, int]) -> None:
        """Set what shares consume of a device."""
        self._consumed[row] = consumed
        self._consumption[row] = self._consumptions.number(consumed)
        if len(self._consumptions.values) > self.fleet.size + MOST_CONSUMPTIONS:
            self._consumptions = Consumptions()  # snapshots keep the numbers that they were made with
            self._consumption = np.zeros(self.fleet.size, dtype=np.int32)
            for at, amounts in self._consumed.items():
                self._consumption[at] = self._consumptions.number(amounts)
            self._views = self._read_only()

    def _evaluate_affected(self, changed_rows: Sequence[int], relieved: Collection[int]) -> Rows:
        """Charge devices that were taken or released, and evaluate all devices that this may affect.

        changed_rows (n,)
        relieved     (k,)  counter sets with an overcharge that was dropped
        ->           (m,)  rows that were evaluated, each once
        """
        sets = set(relieved)
        for row in changed_rows:
            sets |= self._charge(row, -1 if self._held[row] or self._sharing[row] else 1)
        affected = self._update_overcommitted(sets)
        bound = NO_ROWS
        if self._scopes is not None and changed_rows:
            bound = self._scopes.changed(changed_rows, self._held | self._sharing)
        if not affected and not len(bound) and (apart := self._evaluate_by_set(sets)) is not None:
            return apart
        numbers = sets.union(affected)
        again = self.fleet.by_set.of_any(np.array(sorted(numbers), dtype=np.intp))
        again = np.union1d(again, bound) if len(bound) else again
        if len(again):
            self._evaluate(again)
        return again

    def _evaluate_by_set(self, sets: Iterable[int]) -> Rows | None:
        """Evaluate the devices of a few sets, set by set. Only return None if one draws from two sets."""
        of_sets = [(number, rows) for number in sets if len(rows := self.fleet.by_set.of(number))]
        required_draws = [self._required(number, rows) for number, rows in of_sets]
        fitting: list[Mask] = []
        for (number, _), lowest in zip(of_sets, required_draws, strict=True):
            if lowest is None:
                return None
            fitting.append(fits_required(self._left[number], lowest))
        if len(of_sets) == 1:
            rows = of_sets[0][1]
            self._store_fits(rows, fitting[0])
        elif of_sets:
            rows = np.concatenate([rows for _, rows in of_sets])
            self._store_fits(rows, np.concatenate(fitting))
        else:
            rows = NO_ROWS
        return rows

    def _charge(self, row: int, sign: int) -> set[int]:
        """Release (1) or take (-1) what one device draws; return its counter sets."""
        sets = self.fleet.sets[row].tolist()
        for k, number in enumerate(sets):
            if number >= 0:
                self._left[number] += sign * self.fleet.table[self.fleet.draws[row, k]]
        return {number for number in sets if number >= 0}

    def _update_overcommitted(self, sets: Iterable[int]) -> Sequence[int]:
        """Update which sets are over-committed; return all sets of the pools where that changed."""
        flipped = []
        for number in sets:
            over = min(self._left[number].tolist(), default=0) < 0
            if over != self._overcommitted[number]:
                self._overcommitted[number] = over
                flipped.append(number)
        if not flipped:
            return ()
        self._any_overcommitted = bool(self._overcommitted.any())
        groups = np.unique(self.fleet.set_group[flipped])
        affected: list[int] = np.flatnonzero(np.isin(self.fleet.set_group, groups)).tolist()
        return affected

    def _required(self, number: int, rows: Rows) -> Amounts | None:
        """(n, C) the draws of a set's devices; None if a device draws from another set too.

        Cached. Sets of identical machines share one array.
        """
        if number not in self._required_of_set:
            sets, draws = self.fleet.sets[rows], self.fleet.draws[rows]
            alone = bool((sets[:, 0] == number).all() and (sets[:, 1:] < 0).all())
            key = draws[:, 0].tobytes() if alone else None
            if key is not None and key not in self._required_of_draws:
                self._required_of_draws[key] = required(self.fleet.table, draws[:, 0])
            self._required_of_set[number] = self._required_of_draws[key] if key is not None else None
        return self._required_of_set[number]

    def _evaluate(self, rows: Rows) -> None:
        fleet = self.fleet
        self._store_fits(rows, fits(self._left, fleet.table, fleet.sets[rows], fleet.draws[rows]))

    def _store_fits(self, rows: Rows, fitting: Mask) -> None:
        """Store which devices fit, and update `free`."""
        if self._any_overcommitted:
            fleet = self.fleet
            sets, over = fleet.sets[rows], fleet.set_group[self._overcommitted]
            fitting = fitting & ~((sets >= 0) & np.isin(fleet.set_group[sets], over)).any(axis=1)
        if self._scopes is not None:
            fitting = fitting & self._scopes.open[rows]
        self._fits[rows] = fitting
        self._free[rows] = (fitting | self._sharing[rows]) & ~self._held[rows]


def _read_only(array: Array) -> Array:
    view = array.view()
    view.setflags(write=False)
    return view
