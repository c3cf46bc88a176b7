"""The holds as columns over one fleet, updated device by device. Source: CTR-2, AS-4."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from typing import Any, TypeVar
from weakref import ref

import numpy as np

from kernels.groups import distinct
from kernels.types import Amounts, Codes, Mask, Rows
from reconciler.api.objects.meta import DeviceID
from reconciler.state.devices.affinity import Locks, affinity_kinds
from reconciler.state.devices.exclusion import NO_ROWS, ScopeOccupancy
from reconciler.state.devices.fleet import Fleet, Layout
from reconciler.state.devices.ledger import DeviceState, Hold, Ledger, RetainedDraws, state_of
from reconciler.state.devices.occupancy import LONGEST_TRAIL, NOBODY, Consumptions, Occupancy, Trail
from reconciler.state.devices.remaining import Remaining

Array = TypeVar("Array", bound=np.ndarray[Any, Any])

MOST_CONSUMPTIONS = 4096
"""Distinct amounts beyond the number of devices, after which those in use are numbered anew."""


_Views = tuple[Mask, Mask, Amounts, Mask, Mask, Codes, Codes]
"""Read-only views of the arrays: the first fields of `Occupancy`, in its order"""


class OccupancyColumns:
    """The mutable columns. They are copied before a change only if a frozen `Occupancy` is still in use."""

    def __init__(
        self,
        fleet: Fleet,
        ledger: Ledger,
        retained: RetainedDraws,
        layout: Layout | None = None,
        previous: "OccupancyColumns | None" = None,
    ) -> None:
        """Computed from the ledger; given the previous columns, only for fresh pools."""
        self._fleet = fleet
        self._ledger = ledger
        self._held = np.zeros(fleet.size, dtype=np.bool_)
        self._sharing = np.zeros(fleet.size, dtype=np.bool_)
        self._fits = np.zeros(fleet.size, dtype=np.bool_)
        self._free = np.zeros(fleet.size, dtype=np.bool_)
        self._consumed: dict[int, Mapping[str, int]] = {}
        """By row, for exactly the rows that are held in shares"""
        self._consumption = np.zeros(fleet.size, dtype=np.int32)
        self._consumptions = Consumptions()
        self._kinds = affinity_kinds(fleet) if ledger.locks else None
        self._lock = np.zeros(fleet.size, dtype=np.int32)
        self._locks = Locks()
        if layout is None or previous is None:
            fresh = np.arange(fleet.size)
            held: Iterable[DeviceID] = ledger.devices()
        else:
            fresh = self._copy_unchanged(layout, previous)
            held = [DeviceID(*pool.id, name) for pool in layout.fresh() for name in ledger.held_in(pool.id)]
        for device in held:
            for row in fleet.rows_of(device):
                self._set(row, ledger.held_in(device[:2]).get(device[2]))
        whole = len(fresh) == fleet.size  # a slice is several times as fast as all positions
        taken = np.flatnonzero(self._held | self._sharing)
        if not whole:
            taken = fresh[(self._held | self._sharing)[fresh]]
        before: Remaining | None = previous._remaining if previous is not None else None
        self._remaining: Remaining = Remaining(fleet, retained, taken, layout, before)
        if ledger.records_draws:
            pools = fleet.pools if layout is None or previous is None else layout.fresh()
            names = (DeviceID(*pool.id, name) for pool in pools for name in ledger.held_in(pool.id))
            charged = [self._remaining.charge_requested(device, ledger) for device in names]
            self._remaining.update_overcommitted(set[int]().union(*charged))
        self._scopes = None
        if fleet.exclusion is not None:
            self._scopes = ScopeOccupancy(fleet.exclusion, self._held | self._sharing)
        rows = slice(None) if whole else fresh
        self._store_fits(rows, self._remaining.fitting(rows))
        self._trail = Trail()
        self._views = self._read_only()
        self._frozen: list[ref[Occupancy]] = []
        """What was frozen since the arrays were copied; several if fleets follow one another"""

    def follow(self, fleet: Fleet, layout: Layout) -> bool:
        """Serve the fleet of a layout from now on, if every column stays as it is; return whether it does.

        Rows and counters must stay, the same devices must exclude one another, and no held device may be
        charged differently.
        """
        previous = self._fleet
        if layout.replaced is None or layout.previous is not previous:
            return False
        if fleet.exclusion is not previous.exclusion or fleet.table is not previous.table:
            return False
        if self._kinds is not None or (self._ledger.locks and affinity_kinds(fleet) is not None):
            return False
        for at in layout.replaced:
            if not fleet.pools[at].is_named_like(previous.pools[at]):
                return False
            if not self._remaining.charges_alike(fleet, at):
                return False
        self._fleet = self._remaining.fleet = fleet
        self._trail = Trail()
        return True

    def _copy_unchanged(self, layout: Layout, previous: "OccupancyColumns") -> Rows:
        """Copy the rows of unchanged pools; return the rows of the others."""
        fresh = [np.zeros(0, dtype=np.intp)]
        shift = np.zeros(previous._fleet.size, dtype=np.intp)
        kept = np.zeros(previous._fleet.size, dtype=np.bool_)
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
            kept[old], shift[old] = True, rows.start - old.start
        for row, consumed in previous._consumed.items():
            if kept[row]:
                now = row + int(shift[row])
                self._consume(now, consumed)
                self._lock[now] = self._locks.taken_over(previous._lock.item(row), previous._locks)
        return np.concatenate(fresh)

    def fork(self, fleet: Fleet, ledger: Ledger, retained: RetainedDraws) -> "OccupancyColumns":
        """The same columns over forks of fleet, ledger and retained draws; both change independently."""
        other = copy(self)
        other._fleet, other._ledger = fleet, ledger
        other._remaining = self._remaining.fork(fleet, retained)
        other._scopes = self._scopes.fork() if self._scopes is not None else None
        other._consumptions, other._locks = self._consumptions.fork(), self._locks.fork()
        other._trail = Trail()
        other._detach()
        return other

    def freeze(self) -> Occupancy:
        """The current columns, frozen."""
        alive = self._alive() if self._frozen else []
        for known in alive:
            if known.trail is self._trail and known.serial == len(self._trail):
                return known
        scopes = self._scopes
        occupancy = Occupancy(  # by position: twice as fast as by name
            *self._views,
            scopes.open if scopes is not None else None,
            scopes.names if scopes is not None else None,
            self._consumed,
            self._consumptions,
            self._locks,
            self._remaining.overcharges,
            self._remaining.requested,
            self._ledger.claims,
            self._trail,
            len(self._trail),
            NOBODY,
        )
        self._frozen = [*map(ref, alive), ref(occupancy)]
        return occupancy

    def _alive(self) -> list[Occupancy]:
        """What still uses the arrays. Not a `WeakSet`, which costs each claim some microseconds."""
        return [known for frozen in self._frozen if (known := frozen()) is not None]

    def update(self, changed: Iterable[DeviceID]) -> None:
        """Follow the ledger for some devices; re-evaluate only devices that share a counter set with them."""
        if self._frozen:
            if self._alive():
                self._detach()
            self._frozen = []
        rows: list[int] = []
        changed_rows: list[int] = []
        relieved: set[int] = set()
        overcharges = self._remaining.overcharges
        for device in changed:
            if overcharges:
                relieved |= self._noted(self._remaining.drop_overcharge(device))
            hold = self._ledger.held_in(device[:2]).get(device[2])
            for row in self._fleet.rows_of(device):
                rows.append(row)
                if self._set(row, hold):
                    changed_rows.append(row)
            if self._ledger.records_draws:
                relieved |= self._noted(self._remaining.charge_requested(device, self._ledger) or None)
        if relieved or (changed_rows and (self._scopes is not None or self._fleet.sets.shape[1])):
            again = self._evaluate_affected(changed_rows, relieved)
            seen = set(again.tolist())
            apart = [row for row in rows if row not in seen]
            self._record(np.concatenate([again, apart]) if apart else again)
        else:
            self._record(rows)

    def _noted(self, relieved: set[int] | None) -> set[int]:
        """The counter sets that were charged differently, apart from draws in slices; None for no change."""
        if relieved is None:
            return set()
        if not relieved or any(not len(self._fleet.by_set.of(number)) for number in relieved):
            self._trail = Trail()  # no row represents this change
        return relieved

    def _record(self, rows: Rows | Sequence[int]) -> None:
        if not len(rows):
            return
        if len(self._trail) >= LONGEST_TRAIL:
            self._trail = Trail()
        self._trail.add(rows)

    def _detach(self) -> None:
        """Leave the arrays to those who read them, and go on with copies."""
        self._held, self._sharing = self._held.copy(), self._sharing.copy()
        self._fits, self._free = self._fits.copy(), self._free.copy()
        self._consumption, self._lock = self._consumption.copy(), self._lock.copy()
        self._consumed = dict(self._consumed)
        self._remaining.detach()
        self._views = self._read_only()
        self._frozen = []

    def _read_only(self) -> _Views:
        return (
            _read_only(self._held),
            _read_only(self._sharing),
            _read_only(self._remaining.left),
            _read_only(self._fits),
            _read_only(self._free),
            _read_only(self._consumption),
            _read_only(self._lock),
        )

    def _set(self, row: int, hold: Hold | None) -> bool:
        """Set what is held of a device; return whether it was taken or released."""
        was_held, held, sharing = self._held.item(row), hold is not None, False
        if isinstance(hold, DeviceState):
            held, sharing = bool(hold.alone), bool(hold.shares)
        if sharing or row in self._consumed:
            return self._set_shares(row, hold, was_held=was_held)
        if held is not was_held:
            self._held[row] = held
        self._free[row] = not held and self._fits.item(row)
        return held is not was_held

    def _set_shares(self, row: int, hold: Hold | None, *, was_held: bool) -> bool:
        """The same for a device that is or was held in shares."""
        state, was_sharing = state_of(hold), row in self._consumed
        held, sharing = bool(state.alone), bool(state.shares)
        self._held[row] = held
        if sharing:
            self._sharing[row] = True
            self._consume(row, state.consumed)
        else:
            self._sharing[row], self._consumption[row] = False, 0
            del self._consumed[row]
        if self._kinds is not None and (kind := int(self._kinds.of[row])) >= 0:
            holders = [one.config for one in state.shares]
            self._lock[row] = self._locks.of_holders(self._kinds.extractors[kind], holders)
        self._free[row] = not held and (sharing or self._fits.item(row))
        return (was_held or was_sharing) is not (held or sharing)

    def _consume(self, row: int, consumed: Mapping[str, int]) -> None:
        """Set what shares consume of a device."""
        self._consumed[row] = consumed
        self._consumption[row] = self._consumptions.number(consumed)
        if len(self._consumptions.values) > self._fleet.size + MOST_CONSUMPTIONS:
            self._consumptions = Consumptions()  # snapshots keep the numbers that they were made with
            self._consumption = np.zeros(self._fleet.size, dtype=np.int32)
            for at, amounts in self._consumed.items():
                self._consumption[at] = self._consumptions.number(amounts)
            self._views = self._read_only()

    def _evaluate_affected(self, changed_rows: Sequence[int], relieved: Collection[int]) -> Rows:
        """Charge devices that were taken or released, and evaluate all devices that this may affect.

        changed_rows (n,)
        relieved     (k,)  counter sets that were charged differently already
        ->           (m,)  rows that were evaluated, each once
        """
        sets = set(relieved)
        for row in changed_rows:
            sets.update(self._remaining.charge(row, taken=self._held.item(row) or self._sharing.item(row)))
        affected = self._remaining.update_overcommitted(sets)
        bound = NO_ROWS
        if self._scopes is not None and changed_rows:
            bound = self._scopes.changed(changed_rows, self._held | self._sharing)
        if not affected and not len(bound) and (found := self._remaining.fitting_by_set(sets)) is not None:
            again, fitting = found
        else:
            numbers = sets.union(affected)
            again = self._fleet.by_set.of_any(np.array(sorted(numbers), dtype=np.intp))
            again = distinct(np.concatenate([again, bound])) if len(bound) else again
            fitting = self._remaining.fitting(again)
        if len(again):
            self._store_fits(again, fitting)
        return again

    def _store_fits(self, rows: Rows | slice, fitting: Mask) -> None:
        """Store which devices fit, and update `free`."""
        if self._scopes is not None:
            fitting = fitting & self._scopes.open[rows]
        self._fits[rows] = fitting
        if self._consumed:
            fitting = fitting | self._sharing[rows]
        self._free[rows] = fitting > self._held[rows]  # and not held


def _read_only(array: Array) -> Array:
    view = array.view()
    view.setflags(write=False)
    return view
