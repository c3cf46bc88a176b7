"""What held devices of one pool are charged beyond what its slices say now. Source: CTR-3.

Per counter a device is charged the larger of what it drew and what it draws: one that shrank or went may
still use what it had, one that grew may use what it has. A pool counts in units that hold what is remembered
exactly, if there are such; else the sum is rounded up to the unit, which decides the same, since all that
can be taken is whole units.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kernels.types import Amounts
from reconciler.api.objects.quantity import INT64_MAX
from reconciler.state.devices.occupancy.retained_draws import Drawn
from reconciler.state.devices.pools.pool import Pool


class Place(NamedTuple):
    """A counter of a pool: position of the set in the pool, and of the counter in the set."""

    set: int
    counter: int


class Lost(NamedTuple):
    """A held device drew from a counter that its pool does not have any more: nothing can be charged."""

    device: str
    counter_set: str
    counters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Overcharge:
    """Of one pool; never changed."""

    of_device: Mapping[str, Mapping[Place, int]]
    """billionths, above zero"""
    total: Mapping[Place, int]
    """billionths"""
    charged: Mapping[Place, int]
    """The same in units of the counter, for `left`"""
    lost: tuple[Lost, ...]

    def __bool__(self) -> bool:
        return bool(self.of_device or self.lost)


def overcharge_of(pool: Pool, retained: Mapping[str, Drawn], table: Amounts) -> Overcharge:
    """What is to be charged for the remembered devices of a pool. `table` is that of the fleet's draws."""
    found = {name: more for name, drawn in retained.items() if (more := _of_device(pool, name, drawn, table))}
    lost = tuple(gone for name, drawn in retained.items() for gone in _lost(pool, name, drawn))
    return _summed(pool, found, lost, table)


def without(pool: Pool, overcharge: Overcharge, name: str, table: Amounts) -> Overcharge:
    """The same once nobody holds a device any more."""
    found = {device: more for device, more in overcharge.of_device.items() if device != name}
    return _summed(pool, found, tuple(gone for gone in overcharge.lost if gone.device != name), table)


def _of_device(pool: Pool, name: str, drawn: Drawn, table: Amounts) -> dict[Place, int]:
    counters = pool.counters
    now: dict[int, list[int]] = {}
    for row in pool.rows_of(name):
        for set_, draw in zip(counters.of_device[row].tolist(), counters.draws[row].tolist(), strict=True):
            if set_ >= 0:
                amounts = table[draw].tolist()
                now[set_] = (
                    [sum(pair) for pair in zip(now[set_], amounts, strict=True)] if set_ in now else amounts
                )
    found = {}
    for at, columns in enumerate(counters.sets):
        if columns.id.generation in counters.problems:
            continue  # nothing is given from it, and what its devices draw is not charged either
        before = drawn.get(columns.id.name)
        for column, counter in enumerate(columns.counters if before else ()):
            charged = now[at][column] * columns.units[column] if at in now else 0
            more = before.get(counter, 0) - charged if before else 0
            if more > 0:
                found[Place(at, column)] = more
    return found


def _lost(pool: Pool, name: str, drawn: Drawn) -> list[Lost]:
    """Told of the newest generation: those before it go."""
    newest = max((columns.id.generation for columns in pool.counters.sets), default=-1)
    there = {
        columns.id.name: columns.counters
        for columns in pool.counters.sets
        if columns.id.generation == newest and newest not in pool.counters.problems
    }
    if not there:  # nothing is published, or nothing that could be used
        return []
    found = []
    for set_, amounts in drawn.items():
        gone = tuple(
            sorted(
                counter for counter, much in amounts.items() if much and counter not in there.get(set_, ())
            )
        )
        if gone:
            found.append(Lost(name, set_, gone))
    return found


def _summed(
    pool: Pool, found: Mapping[str, Mapping[Place, int]], lost: tuple[Lost, ...], table: Amounts
) -> Overcharge:
    total: dict[Place, int] = {}
    for more in found.values():
        for place, nanos in more.items():
            total[place] = total.get(place, 0) + nanos
    charged = {place: _units(pool, place, nanos, table) for place, nanos in total.items()}
    return Overcharge(found, total, charged, lost)


def _units(pool: Pool, place: Place, nanos: int, table: Amounts) -> int:
    columns = pool.counters.sets[place.set]
    units, total = -(-nanos // columns.units[place.counter]), columns.totals[place.counter]
    draws = pool.counters.draws[pool.counters.of_device == place.set]
    room = INT64_MAX - abs(total) - int(table[draws, place.counter].sum())
    # Where int64 has no room beside what is drawn, more than the whole set is too much in any case.
    return units if units <= room else max(total, 0) + 1
