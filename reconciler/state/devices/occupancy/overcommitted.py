"""Counter sets from which more is drawn than they publish. Only changed sets are evaluated again."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from kernels.distinct import distinct
from kernels.types import Rows
from reconciler.api.objects.meta import DeviceID, ObjectKey, PoolID
from reconciler.api.objects.quantity import Format, Quantity
from reconciler.state.devices.occupancy.trail import Trail
from reconciler.state.devices.snapshot.snapshot import Snapshot


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


class Overcommitments:
    """Follows the over-committed counter sets from snapshot to snapshot."""

    def __init__(self) -> None:
        self._trail: Trail | None = None
        self._serial = 0
        self._known: dict[Key, Overcommitted] = {}

    def follow(self, snapshot: Snapshot) -> tuple[list[Overcommitted], list[Key]]:
        """Sets that are newly over-committed or differently so, and sets that no longer are."""
        occupancy, fleet = snapshot.occupancy, snapshot.fleet
        before = dict(self._known)
        if occupancy.trail is self._trail and occupancy.serial >= self._serial:
            if occupancy.serial == self._serial:
                return [], []
            sets = fleet.sets[self._trail.between(self._serial, occupancy.serial)]
            changed = distinct(sets[sets >= 0]).astype(np.intp)
        else:
            changed = np.arange(len(fleet.totals), dtype=np.intp)
            self._known = {}
        self._trail, self._serial = occupancy.trail, occupancy.serial
        over = changed[(occupancy.left[changed] < 0).any(axis=1)]
        if self._known:
            for number in np.setdiff1d(changed, over).tolist():
                self._known.pop(_key(snapshot, number), None)
        found = list(_found(snapshot, over))
        self._known |= {it.key: it for it in found}
        return (
            [it for it in found if before.get(it.key) != it],
            sorted(key for key in before if key not in self._known),
        )


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
