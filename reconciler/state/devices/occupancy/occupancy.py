"""What is held, as columns over one fleet, kept up to date device by device. Source: CTR-2, AS-4."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypedDict, TypeVar
from weakref import ref

import numpy as np

from kernels.fit import fits, fits_required, required, total_draw
from kernels.types import Amounts, Bits, Mask, Rows
from reconciler.api.objects.meta import DeviceID, ObjectKey, PoolID
from reconciler.api.objects.value import value
from reconciler.state.devices.exclusion.occupancy import NO_ROWS, ScopeOccupancy
from reconciler.state.devices.occupancy.ledger import Ledger
from reconciler.state.devices.occupancy.overcharge import Overcharge, overcharge_of, without
from reconciler.state.devices.occupancy.retained_draws import RetainedDraws
from reconciler.state.devices.pools.assembly import Layout
from reconciler.state.devices.pools.fleet import Fleet

Array = TypeVar("Array", bound=np.ndarray[Any, Any])

LONGEST_TRAIL = 20_000
"""Changes remembered. Who lags behind further starts from scratch; this bounds memory, not correctness."""


class Trail:
    """Which rows changed with each change of the columns, so that what is derived from them can follow."""

    def __init__(self) -> None:
        self._steps: list[Rows] = []

    def __len__(self) -> int:
        return len(self._steps)

    def add(self, rows: Rows) -> None:
        self._steps.append(rows)

    def between(self, serial: int, later: int) -> Rows:
        """(n,) rows that may differ between two serials; a row may appear more than once."""
        steps = self._steps[serial:later]
        return steps[0] if len(steps) == 1 else np.concatenate(steps)


@value(eq=False, weakref_slot=True)
class Occupancy:
    """Columns of D devices and S counter sets. Frozen for as long as somebody holds this object."""

    held: Mask
    """(D,) held by a claim of its own"""
    sharing: Mask
    """(D,) held in shares"""
    left: Amounts
    """(S, C) what the counter sets still have; negative where over-committed"""
    fits: Mask
    """(D,) its own draw fits into what is left, its pool is not over-committed (CTR-6), and it is open"""
    free: Mask
    """(D,) not held, and fits or held in shares already: what a plain request could take"""
    open: Mask | None
    """(D,) nothing that is held excludes the device; part of `fits`. None if no device excludes others"""
    common: Bits | None
    """(scopes, W) names common to all that is held in a scope"""
    consumed: Mapping[int, Mapping[str, int]]
    """row of a shared device -> capacity key -> billionths consumed"""
    overcharges: Mapping[PoolID, Overcharge]
    """What held devices are charged beyond what the slices say now; part of `left`. Few pools have any"""
    claims_of: Callable[[DeviceID], tuple[ObjectKey, ...]]
    """Who holds a device now, which may be later than this picture: for messages, not for decisions"""
    trail: Trail
    serial: int
    """Position in the trail"""


class _Seen(TypedDict):
    """The arrays of a picture."""

    held: Mask
    sharing: Mask
    left: Amounts
    fits: Mask
    free: Mask


class Columns:
    """The same columns, live. Copied before a change only if a frozen picture of them is still in use."""

    def __init__(
        self,
        fleet: Fleet,
        ledger: Ledger,
        retained: RetainedDraws,
        layout: Layout | None = None,
        previous: "Columns | None" = None,
    ) -> None:
        """Worked out from the ledger; beside the columns of the fleet before, only for fresh pools."""
        self.fleet = fleet
        self._ledger = ledger
        self._retained = retained
        self._held = np.zeros(fleet.size, dtype=np.bool_)
        self._sharing = np.zeros(fleet.size, dtype=np.bool_)
        self._fits = np.zeros(fleet.size, dtype=np.bool_)
        self._free = np.zeros(fleet.size, dtype=np.bool_)
        self._consumed: dict[int, Mapping[str, int]] = {}
        self._left = fleet.totals.copy()
        fresh = np.arange(fleet.size)
        if layout is None or previous is None:
            for device in ledger.devices():
                for row in fleet.rows_of(device):
                    self._read(row, device)
        else:
            fresh = self._carry_over(layout, previous)
            for row in fresh.tolist():
                self._read(row, fleet.id_of(row))
        taken = fresh[self._held[fresh] | self._sharing[fresh]]
        self._left -= total_draw(len(fleet.totals), fleet.table, fleet.sets[taken], fleet.draws[taken])
        self._overcharges = self._charged_beyond(layout, previous)
        self._over: Mask = np.any(self._left < 0, axis=1)
        self._some_over = bool(self._over.any())
        self._floors: dict[int, Amounts | None] = {}
        self._makes: dict[bytes, Amounts] = {}
        self._scopes = None
        if fleet.exclusion is not None:
            self._scopes = ScopeOccupancy(fleet.exclusion, self._held | self._sharing)
        self._judge(fresh)
        self._trail = Trail()
        self._seen = self._read_only()
        self._lent: ref[Occupancy] | None = None

    def _carry_over(self, layout: Layout, previous: "Columns") -> Rows:
        """Copy what stands for unchanged pools; the rows of the others."""
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
                self._consumed[row + int(shift[row])] = consumed
        return np.concatenate(fresh)

    def _charged_beyond(self, layout: Layout | None, previous: "Columns | None") -> dict[PoolID, Overcharge]:
        """Charge what is remembered to fresh pools; of the others it is charged already."""
        found: dict[PoolID, Overcharge] = {}
        fresh: Collection[PoolID] = self._retained.pools()
        if layout is not None and previous is not None:
            fresh = {pool.id for run in layout.runs if run.before < 0 for pool in run.pools}
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

    def freeze(self) -> Occupancy:
        """The columns as they are now."""
        occupancy = self._lent() if self._lent is not None else None
        if occupancy is None or occupancy.trail is not self._trail or occupancy.serial != len(self._trail):
            occupancy = Occupancy(
                **self._seen,
                open=self._scopes.open if self._scopes is not None else None,
                common=self._scopes.names if self._scopes is not None else None,
                consumed=self._consumed,
                overcharges=self._overcharges,
                claims_of=self._ledger.claims,
                trail=self._trail,
                serial=len(self._trail),
            )
            self._lent = ref(occupancy)
        return occupancy

    def update(self, changed: Iterable[DeviceID]) -> None:
        """Follow the ledger for some devices; judge again only what shares a counter set with them."""
        if self._lent is not None and self._lent() is not None:
            self._copy()
        rows: list[int] = []
        turned: list[int] = []
        eased: set[int] = set()
        for device in changed:
            if self._overcharges:
                eased |= self._ease(device)
            for row in self.fleet.rows_of(device):
                rows.append(row)
                if self._read(row, device):
                    turned.append(row)
        again = NO_ROWS
        if eased or (turned and (self._scopes is not None or self.fleet.sets.shape[1])):
            again = self._judge_beside(turned, eased)
            seen = set(again.tolist())
            rows = [row for row in rows if row not in seen]
        if rows:
            apart = np.array(rows, dtype=np.intp)
            self._free[apart] = (self._fits[apart] | self._sharing[apart]) & ~self._held[apart]
            again = np.concatenate([again, apart]) if len(again) else apart
        if len(again):
            self._note(again)

    def _ease(self, device: DeviceID) -> set[int]:
        """Charge no more what is remembered of a device, once nobody holds it; the counter sets concerned."""
        overcharge = self._overcharges.get(device.pool_id)
        if overcharge is None or device.device in self._retained.of(device.pool_id):
            return set()
        at = self.fleet.index[device.pool_id]
        less = without(self.fleet.pools[at], overcharge, device.device, self.fleet.table)
        if less.of_device == overcharge.of_device and less.lost == overcharge.lost:
            return set()
        first = int(self.fleet.first_set[at])
        eased = {first + place.set for place in overcharge.of_device.get(device.device, ())}
        for place, units in overcharge.charged.items():
            self._left[first + place.set, place.counter] += units - less.charged.get(place, 0)
        if less:
            self._overcharges[device.pool_id] = less
        else:
            del self._overcharges[device.pool_id]
        if not eased or any(not len(self.fleet.by_set.of(number)) for number in eased):
            self._trail = Trail()  # no row tells of it
        return eased

    def _note(self, rows: Rows) -> None:
        if len(self._trail) >= LONGEST_TRAIL:
            self._trail = Trail()
        self._trail.add(rows)

    def _copy(self) -> None:
        self._held, self._sharing = self._held.copy(), self._sharing.copy()
        self._left, self._fits, self._free = self._left.copy(), self._fits.copy(), self._free.copy()
        self._consumed = dict(self._consumed)
        self._overcharges = dict(self._overcharges)
        self._seen = self._read_only()

    def _read_only(self) -> _Seen:
        return _Seen(
            held=_read_only(self._held),
            sharing=_read_only(self._sharing),
            left=_read_only(self._left),
            fits=_read_only(self._fits),
            free=_read_only(self._free),
        )

    def _read(self, row: int, device: DeviceID) -> bool:
        """Whether the device was taken, or is free again."""
        state = self._ledger.state(device)
        before = self._held[row] or self._sharing[row]
        self._held[row] = held = bool(state.alone)
        self._sharing[row] = sharing = bool(state.shares)
        if sharing:
            self._consumed[row] = state.consumed
        else:
            self._consumed.pop(row, None)
        return bool(before != (held or sharing))

    def _judge_beside(self, turned: Sequence[int], eased: Collection[int]) -> Rows:
        """Charge devices that were taken or freed, and judge those that may feel it.

        turned (n,)  rows
        eased        counter sets that were given something back already
        ->     (m,)  rows that were judged, each once
        """
        touched = set(eased)
        for row in turned:
            touched |= self._charge(row, -1 if self._held[row] or self._sharing[row] else 1)
        spread = self._spread(touched)
        bound = NO_ROWS
        if self._scopes is not None and turned:
            bound = self._scopes.changed(turned, self._held | self._sharing)
        if not spread and not len(bound) and (apart := self._judge_apart(touched)) is not None:
            return apart
        numbers = touched.union(spread)
        again = self.fleet.by_set.of_any(np.array(sorted(numbers), dtype=np.intp))
        again = np.union1d(again, bound) if len(bound) else again
        if len(again):
            self._judge(again)
        return again

    def _judge_apart(self, touched: Iterable[int]) -> Rows | None:
        """Judge the devices of a few sets, set by set; None, and nothing done, if one draws from two sets."""
        of_sets = [(number, rows) for number in touched if len(rows := self.fleet.by_set.of(number))]
        floors = [self._floor(number, rows) for number, rows in of_sets]
        fine: list[Mask] = []
        for (number, _), lowest in zip(of_sets, floors, strict=True):
            if lowest is None:
                return None
            fine.append(fits_required(self._left[number], lowest))
        if len(of_sets) == 1:
            rows = of_sets[0][1]
            self._settle(rows, fine[0])
        elif of_sets:
            rows = np.concatenate([rows for _, rows in of_sets])
            self._settle(rows, np.concatenate(fine))
        else:
            rows = NO_ROWS
        return rows

    def _charge(self, row: int, sign: int) -> set[int]:
        """Give back (1) or take (-1) what one device draws; the counter sets concerned."""
        sets = self.fleet.sets[row].tolist()
        for k, number in enumerate(sets):
            if number >= 0:
                self._left[number] += sign * self.fleet.table[self.fleet.draws[row, k]]
        return {number for number in sets if number >= 0}

    def _spread(self, touched: Iterable[int]) -> Sequence[int]:
        """The sets of a pool that has become over-committed, or has ceased to be, by a change of these."""
        turned = []
        for number in touched:
            over = min(self._left[number].tolist(), default=0) < 0
            if over != self._over[number]:
                self._over[number] = over
                turned.append(number)
        if not turned:
            return ()
        self._some_over = bool(self._over.any())
        groups = np.unique(self.fleet.set_group[turned])
        spread: list[int] = np.flatnonzero(np.isin(self.fleet.set_group, groups)).tolist()
        return spread

    def _floor(self, number: int, rows: Rows) -> Amounts | None:
        """(n, C) what the devices draw that draw from a set; None if one draws from another set, too.

        Kept: sets of one make are drawn from alike, so that they share the array.
        """
        if number not in self._floors:
            sets, draws = self.fleet.sets[rows], self.fleet.draws[rows]
            alone = bool((sets[:, 0] == number).all() and (sets[:, 1:] < 0).all())
            key = draws[:, 0].tobytes() if alone else None
            if key is not None and key not in self._makes:
                self._makes[key] = required(self.fleet.table, draws[:, 0])
            self._floors[number] = self._makes[key] if key is not None else None
        return self._floors[number]

    def _judge(self, rows: Rows) -> None:
        fleet = self.fleet
        self._settle(rows, fits(self._left, fleet.table, fleet.sets[rows], fleet.draws[rows]))

    def _settle(self, rows: Rows, fine: Mask) -> None:
        """Write down which of some devices fit, and what follows."""
        if self._some_over:
            fleet = self.fleet
            sets, over = fleet.sets[rows], fleet.set_group[self._over]
            fine = fine & ~((sets >= 0) & np.isin(fleet.set_group[sets], over)).any(axis=1)
        if self._scopes is not None:
            fine = fine & self._scopes.open[rows]
        self._fits[rows] = fine
        self._free[rows] = (fine | self._sharing[rows]) & ~self._held[rows]


def _read_only(array: Array) -> Array:
    view = array.view()
    view.setflags(write=False)
    return view
