"""The holds as frozen columns over one fleet; what changed; what is charged beyond the slices. Source: CTR-3.

Decisions read them; `occupancy_columns` keeps them current.
"""

from array import array
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from kernels.types import Amounts, Bits, Codes, Mask, Rows
from reconciler.api.objects.meta import DeviceID, ObjectKey, PoolID
from reconciler.api.objects.quantity import INT64_MAX
from reconciler.state.caches import Forkable
from reconciler.state.devices.affinity import Locks
from reconciler.state.devices.ledger import NOTHING, Drawn
from reconciler.state.devices.pool import Pool

LONGEST_TRAIL = 20_000
"""Most changes kept. A follower that is further behind starts from scratch: this only bounds memory."""


class Trail:
    """The rows that each change of the columns affects. Derived values follow it.

    Changes are only added, and readers in other threads see whole changes.
    """

    def __init__(self) -> None:
        self._rows = array("q")
        self._ends = array("q", [0])
        """How many rows there are after each change; the first entry is before all changes"""

    def __len__(self) -> int:
        return len(self._ends) - 1

    def add(self, rows: Rows | Sequence[int]) -> None:
        """Add a change: the rows (n,) that it affects."""
        self._rows.extend(rows.tolist() if isinstance(rows, np.ndarray) else rows)
        self._ends.append(len(self._rows))

    def between(self, serial: int, later: int) -> Rows:
        """(n,) rows that may differ between two serials; a row may appear more than once."""
        return np.array(self._rows[self._ends[serial] : self._ends[later]], dtype=np.intp)

    def few_between(self, serial: int, later: int, most: int) -> list[int] | None:
        """The same as a list, faster where they are few; None if there are more than `most`."""
        start, end = self._ends[serial], self._ends[later]
        return self._rows[start:end].tolist() if end - start <= most else None


class CounterIndex(NamedTuple):
    """A counter of a pool: the position of the set in the pool, and of the counter in the set."""

    set: int
    counter: int


class LostCounters(NamedTuple):
    """A held device drew from counters that its pool no longer has, so they cannot be charged."""

    device: str
    counter_set: str
    counters: tuple[str, ...]


class Overcharge(Struct, frozen=True):
    """The overcharge of one pool. Immutable.

    For each counter a device is charged the larger of its retained draw and its current draw: a device
    that shrank or is gone may still use what it had, a device that grew may use what it has. If
    possible, the units of a pool represent the retained amounts exactly. Otherwise the sum is rounded up
    to whole units; decisions stay the same, since a device can draw only whole units.
    """

    of_device: Mapping[str, Mapping[CounterIndex, int]]
    """billionths, above zero"""
    total: Mapping[CounterIndex, int]
    """billionths"""
    charged: Mapping[CounterIndex, int]
    """`total` in units of the counter, as `left` counts"""
    lost: tuple[LostCounters, ...]

    def __bool__(self) -> bool:
        return bool(self.of_device or self.lost)


def overcharge_of(pool: Pool, retained: Mapping[str, Drawn], table: Amounts) -> Overcharge:
    """The overcharge for the retained draws of a pool. `table` is the fleet's table of draws."""
    found = {
        name: extra for name, drawn in retained.items() if (extra := _of_device(pool, name, drawn, table))
    }
    lost = tuple(gone for name, drawn in retained.items() for gone in _lost(pool, name, drawn))
    return _summed(pool, found, lost, table)


def without_device(pool: Pool, overcharge: Overcharge, name: str, table: Amounts) -> Overcharge:
    """The overcharge after a device was released."""
    found = {device: extra for device, extra in overcharge.of_device.items() if device != name}
    return _summed(pool, found, tuple(gone for gone in overcharge.lost if gone.device != name), table)


def _of_device(pool: Pool, name: str, drawn: Drawn, table: Amounts) -> dict[CounterIndex, int]:
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
            continue  # nothing is allocated from it, and the draws of its devices are not charged
        before = drawn.get(columns.id.name)
        for column, counter in enumerate(columns.counters if before else ()):
            charged = now[at][column] * columns.units[column] if at in now else 0
            extra = before.get(counter, 0) - charged if before else 0
            if extra > 0:
                found[CounterIndex(at, column)] = extra
    return found


def _lost(pool: Pool, name: str, drawn: Drawn) -> list[LostCounters]:
    """Counters missing from the newest generation. Older generations will be deleted."""
    newest = max((columns.id.generation for columns in pool.counters.sets), default=-1)
    there = {
        columns.id.name: columns.counters
        for columns in pool.counters.sets
        if columns.id.generation == newest and newest not in pool.counters.problems
    }
    if not there:  # nothing usable is published
        return []
    found = []
    for set_, amounts in drawn.items():
        gone = tuple(
            sorted(
                counter for counter, much in amounts.items() if much and counter not in there.get(set_, ())
            )
        )
        if gone:
            found.append(LostCounters(name, set_, gone))
    return found


def _summed(
    pool: Pool,
    found: Mapping[str, Mapping[CounterIndex, int]],
    lost: tuple[LostCounters, ...],
    table: Amounts,
) -> Overcharge:
    total: dict[CounterIndex, int] = {}
    for extra in found.values():
        for place, nanos in extra.items():
            total[place] = total.get(place, 0) + nanos
    charged = {place: _units(pool, place, nanos, table) for place, nanos in total.items()}
    return Overcharge(found, total, charged, lost)


def _units(pool: Pool, place: CounterIndex, nanos: int, table: Amounts) -> int:
    columns = pool.counters.sets[place.set]
    units, total = -(-nanos // columns.units[place.counter]), columns.totals[place.counter]
    draws = pool.counters.draws[pool.counters.of_device == place.set]
    room = INT64_MAX - abs(total) - int(table[draws, place.counter].sum())
    # If int64 would overflow, more than the whole set has the same effect: overcommitted.
    return units if units <= room else max(total, 0) + 1


NOBODY: Mapping[int, str] = MappingProxyType({})
"""No device is nominated"""


class Occupancy(Struct, frozen=True, eq=False, weakref=True):
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
    consumption: Codes
    """(D,) number in `consumptions` of what shares consume of a device; 0 for nothing"""
    lock: Codes
    """(D,) number in `locks` of the mode of a device that is held in shares; 0 for none"""
    open: Mask | None
    """(D,) no held device excludes this one; part of `fits`. None if no device excludes others"""
    common: Bits | None
    """(scopes, W) names that all held devices of a scope share"""
    consumed: Mapping[int, Mapping[str, int]]
    """row of a shared device -> capacity key -> billionths consumed"""
    consumptions: "Consumptions"
    locks: Locks
    overcharges: Mapping[PoolID, Overcharge]
    """What held devices are charged beyond their current slices; part of `left`. Few pools have any"""
    requested: Mapping[DeviceID, Mapping[CounterIndex, int]]
    """Held device -> what it is charged because its requests say so; part of `left`"""
    claims_of: Callable[[DeviceID], tuple[ObjectKey, ...]]
    """The current holders of a device, maybe newer than this snapshot: for messages, not for decisions"""
    trail: Trail
    serial: int
    """Position in the trail"""
    held_for: Mapping[int, str]
    """row of a nominated device -> for whom it is held, and until when; see `state.nominations`"""
    base: "Occupancy | None" = None
    """Without the nominations. Referenced so that arrays that both have stay frozen"""


class Consumptions(Forkable):
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
