"""What is left of the counter sets of a fleet, and which devices fit in it. Source: CTR-2, CTR-3, CTR-6.

Also the sets from which more is drawn than they publish.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from kernels.fit import Fitting, fits, required, total_draw
from kernels.groups import distinct
from kernels.types import Amounts, Mask, Rows
from reconciler.api.objects.meta import DeviceID, ObjectKey, PoolID
from reconciler.api.objects.quantity import Format, Quantity
from reconciler.state.devices.fleet import Fleet, Layout
from reconciler.state.devices.ledger import NOTHING, Ledger, RetainedDraws
from reconciler.state.devices.occupancy import CounterIndex, Overcharge, overcharge_of, without_device
from reconciler.state.devices.snapshot import Snapshot


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
        self.requested: dict[DeviceID, Mapping[CounterIndex, int]] = {}
        """Held device -> what it is charged beside its draws in its slice, because its requests say so"""
        if layout is not None and previous is not None and previous.requested:
            fresh = {pool.id for pool in layout.fresh()}
            kept = fleet.index.keys() - fresh
            self.requested = {d: units for d, units in previous.requested.items() if d.pool_id in kept}
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
        self.requested = dict(self.requested)

    def charges_alike(self, fleet: Fleet, at: int) -> bool:
        """Whether the held devices of a pool at a position of another fleet are charged the same there."""
        pool = fleet.pools[at]
        if any(device.pool_id == pool.id for device in self.requested):
            return False
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

    def charge_requested(self, device: DeviceID, ledger: Ledger) -> set[int]:
        """Charge a device what its results say beside what its slice says (SCC-3); return the counter sets
        of which more or less is left.
        """
        at = self.fleet.index.get(device.pool_id)
        before = self.requested.pop(device, NOTHING)
        now = self._requested_of(device, at, ledger) if at is not None else NOTHING
        if now:
            self.requested[device] = now
        changed = set()
        for place in before.keys() | now.keys():
            more = now.get(place, 0) - before.get(place, 0)
            if more and at is not None:
                changed.add(number := int(self.fleet.first_set[at]) + place.set)
                self.left[number, place.counter] -= more
        return changed

    def _requested_of(self, device: DeviceID, at: int, ledger: Ledger) -> Mapping[CounterIndex, int]:
        """Units that a device is charged beside what its slice says.

        A hold without a record was made while the gate was off: it counts as all there is, since nobody knows
        how much it is.
        """
        fleet, records, holds = self.fleet, ledger.records(device), ledger.state(device).holds
        retained = self._retained.of(device.pool_id).get(device.device, NOTHING)
        first, found = int(fleet.first_set[at]), dict[CounterIndex, int]()
        drawn, asked = dict[int, Amounts](), set[tuple[str, str]]()
        for row in fleet.rows_of(device):
            of_row = zip(fleet.sets[row].tolist(), fleet.draws[row].tolist(), strict=True)
            drawn |= {number - first: fleet.table[draw] for number, draw in of_row if number >= 0}
            if (code := int(fleet.codes["asked"][row])) >= 0:
                asked |= {(one.set, one.counter) for one in fleet.vocabulary.asked.values[code]}
        named = {of_set for of_set, _ in asked.union(*records)}
        for number, columns in enumerate(fleet.pools[at].counters.sets if named else ()):
            if columns.id.name not in named:
                continue
            for column, (name, unit) in enumerate(zip(columns.counters, columns.units, strict=True)):
                key, most = (columns.id.name, name), max(columns.totals[column], 0) + 1
                amounts = [record[key] for record in records if key in record]
                static = int(drawn[number][column]) * unit if number in drawn else 0
                # What its slice says, a device draws once, however many shares there are (CTR-9).
                if key in asked:
                    wanted = static + sum(max(amount - static, 0) for amount in amounts)
                else:
                    wanted = max(amounts, default=0) if static else sum(amounts)
                known = max(static, retained.get(columns.id.name, NOTHING).get(name, 0))
                units = min(-(-(wanted - known) // unit), most)
                if key in asked and len(records) < holds:
                    units = max(units, max(columns.totals[column], 0) - known // unit)
                if units > 0:
                    found[CounterIndex(number, column)] = units
        return found

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


class Key(NamedTuple):
    """One counter set of one generation of a pool."""

    pool: PoolID
    generation: int
    counter_set: str


class Overcommitted(Struct, frozen=True):
    """More is drawn from a counter set than it publishes."""

    key: Key
    short: tuple[tuple[str, str], ...]
    """Counter and missing amount"""
    claims: tuple[ObjectKey, ...]
    """The claims whose devices draw from the set; none if the published amount is negative"""


def overcommitted(snapshot: Snapshot) -> dict[Key, Overcommitted]:
    """All counter sets of which more is drawn than they publish."""
    over = np.flatnonzero((snapshot.occupancy.left < 0).any(axis=1))
    return {it.key: it for it in _found(snapshot, over)}


def _found(snapshot: Snapshot, over: Rows) -> Iterator[Overcommitted]:
    fleet, occupancy = snapshot.fleet, snapshot.occupancy
    for number in over.tolist():
        columns = fleet.set_columns[number]
        short = tuple(
            (name, str(Quantity(-left * unit, Format.BINARY)))
            for name, unit, left in zip(
                columns.counters, columns.units, occupancy.left[number].tolist(), strict=False
            )
            if left < 0
        )
        rows = fleet.by_set.of(number)
        taken = rows[occupancy.held[rows] | occupancy.sharing[rows]]
        devices = {fleet.id_of(row) for row in taken.tolist()} | set(_overcharged_devices(snapshot, number))
        claims = {claim for device in devices for claim in occupancy.claims_of(device)}
        yield Overcommitted(_key(snapshot, number), short, tuple(sorted(claims)))


def _overcharged_devices(snapshot: Snapshot, number: int) -> Iterator[DeviceID]:
    """Devices whose retained draws are charged to a set, published or not."""
    at = _pool_at(snapshot, number)
    pool = snapshot.fleet.pools[at].id
    overcharge = snapshot.occupancy.overcharges.get(pool)
    local = number - int(snapshot.fleet.first_set[at])
    for name, places in overcharge.of_device.items() if overcharge else ():
        if any(place.set == local for place in places):
            yield DeviceID(*pool, name)


def _key(snapshot: Snapshot, number: int) -> Key:
    columns = snapshot.fleet.set_columns[number]
    pool = snapshot.fleet.pools[_pool_at(snapshot, number)]
    return Key(pool.id, columns.id.generation, columns.id.name)


def _pool_at(snapshot: Snapshot, number: int) -> int:
    # Every set belongs to one pool; pools without sets have empty ranges.
    return int(np.searchsorted(snapshot.fleet.first_set, number, side="right")) - 1
