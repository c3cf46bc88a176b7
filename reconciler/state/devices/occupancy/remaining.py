"""What is left of the counter sets of a fleet, and which devices fit in it. Source: CTR-2, CTR-3, CTR-6."""

from collections.abc import Collection, Iterable, Sequence
from copy import copy

import numpy as np

from kernels.distinct import distinct
from kernels.fit import Fitting, fits, required, total_draw
from kernels.types import Amounts, Mask, Rows
from reconciler.api.objects.meta import DeviceID, PoolID
from reconciler.state.devices.occupancy.overcharge import Overcharge, overcharge_of, without_device
from reconciler.state.devices.occupancy.retained_draws import RetainedDraws
from reconciler.state.devices.pools.assembly import Layout
from reconciler.state.devices.pools.fleet import Fleet


class Remaining:
    """Follows, device by device, what is taken from S counter sets with C counters."""

    def __init__(
        self,
        fleet: Fleet,
        retained: RetainedDraws,
        taken: Rows,
        layout: Layout | None,
        previous: "Remaining | None",
    ) -> None:
        """Computed from the rows (n,) that are taken in fresh pools, and copied for all other pools.

        Without a layout or what there was before, all pools are fresh.
        """
        self.fleet = fleet
        self._retained = retained
        self.left: Amounts = fleet.totals.copy()
        """(S, C) negative if over-committed"""
        if layout is not None and previous is not None:
            width = previous.left.shape[1]
            for run in layout.runs:
                if run.before >= 0:
                    self.left[layout.sets(run), :width] = previous.left[layout.old_sets(run)]
        self.left -= total_draw(len(fleet.totals), fleet.table, fleet.sets[taken], fleet.draws[taken])
        self.overcharges = self._charge_retained(layout, previous)
        """What held devices are charged beyond their current slices"""
        self._overcommitted: Mask = np.any(self.left < 0, axis=1)
        self._any_overcommitted = bool(self._overcommitted.any())
        self._of_set: dict[int, tuple[Rows, Fitting | None]] = {}
        self._of_draws: dict[bytes, Fitting] = {}

    def fork(self, fleet: Fleet, retained: RetainedDraws) -> "Remaining":
        """The same over forks of fleet and retained draws; both change independently."""
        other = copy(self)
        other.fleet, other._retained = fleet, retained
        other._overcommitted = self._overcommitted.copy()
        other._of_set, other._of_draws = {}, {}  # they learn as they are used
        other.detach()
        return other

    def detach(self) -> None:
        """Leave the arrays to those who read them, and go on with copies."""
        self.left = self.left.copy()
        self.overcharges = dict(self.overcharges)

    def charges_alike(self, fleet: Fleet, at: int) -> bool:
        """Whether the held devices of a pool at a position of another fleet are charged the same there."""
        pool = fleet.pools[at]
        retained, charged = self._retained.of(pool.id), self.overcharges.get(pool.id)
        overcharge = overcharge_of(pool, retained, fleet.table) if retained else None
        return (overcharge or None) == charged

    def charge(self, row: int, *, taken: bool) -> list[int]:
        """Take what one device draws, or release it; return its counter sets."""
        drawn = []
        for number, draw in zip(self.fleet.sets[row].tolist(), self.fleet.draws[row].tolist(), strict=True):
            if number >= 0:
                drawn.append(number)
                if taken:
                    self.left[number] -= self.fleet.table[draw]
                else:
                    self.left[number] += self.fleet.table[draw]
        return drawn

    def drop_overcharge(self, device: DeviceID) -> set[int] | None:
        """Drop the overcharge of a device that no claim holds any more; return its counter sets.

        None if it has no overcharge.
        """
        overcharge = self.overcharges.get(device.pool_id)
        if overcharge is None or device.device in self._retained.of(device.pool_id):
            return None
        at = self.fleet.index[device.pool_id]
        remaining = without_device(self.fleet.pools[at], overcharge, device.device, self.fleet.table)
        if remaining.of_device == overcharge.of_device and remaining.lost == overcharge.lost:
            return None
        first = int(self.fleet.first_set[at])
        relieved = {first + place.set for place in overcharge.of_device.get(device.device, ())}
        for place, units in overcharge.charged.items():
            self.left[first + place.set, place.counter] += units - remaining.charged.get(place, 0)
        if remaining:
            self.overcharges[device.pool_id] = remaining
        else:
            del self.overcharges[device.pool_id]
        return relieved

    def update_overcommitted(self, sets: Iterable[int]) -> Sequence[int]:
        """Update which sets are over-committed; return all sets of the pools where that changed."""
        flipped = []
        for number in sets:
            over = min(self.left[number].tolist(), default=0) < 0
            if over != self._overcommitted.item(number):
                self._overcommitted[number] = over
                flipped.append(number)
        if not flipped:
            return ()
        self._any_overcommitted = bool(self._overcommitted.any())
        groups = distinct(self.fleet.set_group[flipped])
        affected: list[int] = np.flatnonzero(np.isin(self.fleet.set_group, groups)).tolist()
        return affected

    def fitting(self, rows: Rows | slice) -> Mask:
        """(n,) devices, in this order, whose draws fit in what is left."""
        fleet = self.fleet
        return self._usable(rows, fits(self.left, fleet.table, fleet.sets[rows], fleet.draws[rows]))

    def fitting_by_set(self, sets: Collection[int]) -> tuple[Rows, Mask] | None:
        """(n,) devices that draw from a few sets, and (n,) whether they fit, set by set.

        None if one of them draws from two sets.
        """
        found: list[tuple[Rows, Mask]] = []
        for number in sets:
            known = self._of_set.get(number)
            if known is None:
                known = self._of_set[number] = self._drawing(number)
            rows, fitting = known
            if fitting is not None:
                found.append((rows, fitting.of(self.left[number])))
            elif len(rows):
                return None
        if not found:
            return self.fleet.by_set.rows[:0], np.zeros(0, dtype=np.bool_)
        rows, mask = found[0]
        if len(found) > 1:
            rows, mask = np.concatenate([one for one, _ in found]), np.concatenate([one for _, one in found])
        return rows, self._usable(rows, mask)

    def _usable(self, rows: Rows | slice, fitting: Mask) -> Mask:
        """(n,) those of `fitting` whose pool is not over-committed (CTR-6)."""
        if not self._any_overcommitted:
            return fitting
        fleet = self.fleet
        sets, over = fleet.sets[rows], fleet.set_group[self._overcommitted]
        return fitting & ~((sets >= 0) & np.isin(fleet.set_group[sets], over)).any(axis=1)

    def _drawing(self, number: int) -> tuple[Rows, Fitting | None]:
        """The devices that draw from a set, and which of them fit by what is left.

        None if there are none or if one draws from another set too. Sets of identical machines share one.
        """
        rows = self.fleet.by_set.of(number)
        sets, draws = self.fleet.sets[rows], self.fleet.draws[rows]
        if not len(rows) or not bool((sets[:, 0] == number).all() and (sets[:, 1:] < 0).all()):
            return rows, None
        key = draws[:, 0].tobytes()
        if key not in self._of_draws:
            self._of_draws[key] = Fitting(required(self.fleet.table, draws[:, 0]))
        return rows, self._of_draws[key]

    def _charge_retained(
        self, layout: Layout | None, previous: "Remaining | None"
    ) -> dict[PoolID, Overcharge]:
        """Charge retained draws to fresh pools; the other pools are charged already."""
        found: dict[PoolID, Overcharge] = {}
        fresh: Collection[PoolID] = self._retained.pools()
        if layout is not None and previous is not None:
            fresh = {pool.id for pool in layout.fresh()}
            found = {
                pool: overcharge
                for pool, overcharge in previous.overcharges.items()
                if pool not in fresh and pool in self.fleet.index
            }
        for pool in self._retained.pools():
            if pool in fresh and pool in self.fleet.index:
                at = self.fleet.index[pool]
                overcharge = overcharge_of(self.fleet.pools[at], self._retained.of(pool), self.fleet.table)
                if overcharge:
                    found[pool] = overcharge
                for place, units in overcharge.charged.items():
                    self.left[int(self.fleet.first_set[at]) + place.set, place.counter] -= units
        return found
