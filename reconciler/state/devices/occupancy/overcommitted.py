"""Counter sets from which more is drawn than they publish. Looks again only at sets that changed."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kernels.types import Rows
from reconciler.api.objects.meta import DeviceID, ObjectKey, PoolID
from reconciler.api.objects.quantity import Format, Quantity
from reconciler.state.devices.occupancy.occupancy import Trail
from reconciler.state.devices.snapshot.snapshot import Snapshot


class Key(NamedTuple):
    """One counter set of one generation of a pool."""

    pool: PoolID
    generation: int
    counter_set: str


@dataclass(frozen=True, slots=True)
class Overcommitted:
    """Too much is drawn from a counter set."""

    key: Key
    short: tuple[tuple[str, str], ...]
    """Counter, and how much of it is missing"""
    claims: tuple[ObjectKey, ...]
    """Who holds devices that draw from the set; nobody where less than nothing was published"""


class Overcommitments:
    """The sets that are over-committed, followed from picture to picture."""

    def __init__(self) -> None:
        self._trail: Trail | None = None
        self._serial = 0
        self._known: dict[Key, Overcommitted] = {}

    def follow(self, world: Snapshot) -> tuple[list[Overcommitted], list[Key]]:
        """Sets that are over-committed now, and were not before or not in this way; and those that were."""
        occupancy, fleet = world.occupancy, world.fleet
        before = dict(self._known)
        if occupancy.trail is self._trail and occupancy.serial >= self._serial:
            if occupancy.serial == self._serial:
                return [], []
            sets = fleet.sets[self._trail.between(self._serial, occupancy.serial)]
            changed = np.unique(sets[sets >= 0]).astype(np.intp)
        else:
            changed = np.arange(len(fleet.totals), dtype=np.intp)
            self._known = {}
        self._trail, self._serial = occupancy.trail, occupancy.serial
        over = changed[(occupancy.left[changed] < 0).any(axis=1)]
        if self._known:
            for number in np.setdiff1d(changed, over).tolist():
                self._known.pop(_key(world, number), None)
        found = list(_found(world, over))
        self._known |= {one.key: one for one in found}
        return (
            [one for one in found if before.get(one.key) != one],
            sorted(key for key in before if key not in self._known),
        )


def _found(world: Snapshot, over: Rows) -> Iterator[Overcommitted]:
    fleet, occupancy = world.fleet, world.occupancy
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
        devices = {fleet.id_of(row) for row in taken.tolist()} | set(_retained(world, number))
        claims = {claim for device in devices for claim in occupancy.claims_of(device)}
        yield Overcommitted(_key(world, number), short, tuple(sorted(claims)))


def _retained(world: Snapshot, number: int) -> Iterator[DeviceID]:
    """Devices that are charged to a set for what they drew, published or not."""
    at = _pool_at(world, number)
    pool = world.fleet.pools[at].id
    overcharge = world.occupancy.overcharges.get(pool)
    local = number - int(world.fleet.first_set[at])
    for name, places in overcharge.of_device.items() if overcharge else ():
        if any(place.set == local for place in places):
            yield DeviceID(*pool, name)


def _key(world: Snapshot, number: int) -> Key:
    columns = world.fleet.set_columns[number]
    pool = world.fleet.pools[_pool_at(world, number)]
    return Key(pool.id, columns.id.generation, columns.id.name)


def _pool_at(world: Snapshot, number: int) -> int:
    # Every set belongs to one pool; pools without sets have empty ranges.
    return int(np.searchsorted(world.fleet.first_set, number, side="right")) - 1
