"""By how much counters are short: which counter of which set, for the device that comes closest."""

from collections.abc import Iterator

import numpy as np

from kernels.types import Amounts, Codes, Rows
from reconciler.allocation.reasons.explanation import Shortage
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.quantity import NANO, Format, Quantity
from reconciler.state.caches import Cache, share
from reconciler.state.devices.pools.counters import Scale
from reconciler.state.devices.pools.fleet import Fleet
from reconciler.state.devices.snapshot.snapshot import Snapshot

AT_ONCE = 1 << 16
"""Devices compared at once, which bounds memory, not the answer."""
MOST_HOLDERS = 3
"""Claims that are named as holding what is missing."""
MEBI = 1 << 20


def shortages(rows: Rows, world: Snapshot) -> tuple[Shortage, ...]:
    """Each counter that is short for some of the devices in `rows` (n,), where it is short by least.

    Counters of one name in sets of the same make count as one. The least short, as a part of what is
    wanted, comes first; of one device the last is what it lacks most.
    """
    best: dict[tuple[int, int], tuple[float, int, int]] = {}
    counted: dict[tuple[int, int], int] = {}
    for start in range(0, len(rows), AT_ONCE):
        some = rows[start : start + AT_ONCE]
        for make, column, part, row, k, count in _least(some, world):
            key = make, column
            counted[key] = counted.get(key, 0) + count
            best[key] = min(best.get(key, (part, row, k)), (part, row, k))
    order = sorted(best, key=lambda key: best[key])
    return tuple(_shortage(*best[key][1:], key[1], counted[key], world) for key in order)


def of_device(row: int, world: Snapshot) -> tuple[Shortage, ...]:
    """The counters that are short for one device."""
    return shortages(np.array([row], dtype=np.intp), world)


def relative(rows: Rows, world: Snapshot) -> np.ndarray:
    """(n,) float: how far each device is from fitting; the part of what it wants of its scarcest counter."""
    worst = np.zeros(len(rows))
    for _, short, wanted in _short(rows, world):
        part = np.where(short > 0, short / np.maximum(wanted, 1), 0.0).max(axis=1, initial=0.0)
        worst = np.maximum(worst, part)
    return worst


def _least(rows: Rows, world: Snapshot) -> Iterator[tuple[int, int, float, int, int, int]]:
    """Make of set, counter, part that is missing, row, place among the device's sets, devices concerned."""
    makes = _MAKES.of(world.fleet)
    for k, short, wanted in _short(rows, world):
        make = makes[world.fleet.sets[rows, k]]
        for code in np.unique(make).tolist():
            mine = np.flatnonzero(make == code)
            part = np.where(short[mine] > 0, short[mine] / np.maximum(wanted[mine], 1), np.inf)
            for column in np.flatnonzero(np.isfinite(part).any(axis=0)).tolist():
                at = int(part[:, column].argmin())
                count = int(np.isfinite(part[:, column]).sum())
                yield code, column, float(part[at, column]), int(rows[mine[at]]), k, count


def _short(rows: Rows, world: Snapshot) -> Iterator[tuple[int, Amounts, Amounts]]:
    """For each place k of a set: (n, C) what is missing, at most what is wanted where nothing is left."""
    fleet, left = world.fleet, world.occupancy.left
    for k in range(fleet.sets.shape[1]):
        sets = fleet.sets[rows, k]
        if not (sets >= 0).any():
            continue
        wanted = fleet.table.take(fleet.draws[rows, k], axis=0, mode="clip")
        missing = np.maximum(wanted - left.take(sets, axis=0, mode="clip"), 0)
        yield k, np.where((sets >= 0)[:, np.newaxis] & (wanted > 0), missing, 0), wanted


def _makes(fleet: Fleet) -> Codes:
    """(S + 1,) sets with the same counters in the same units have the same number; -1 for "no set"."""
    known: dict[Scale, int] = {}
    makes = [known.setdefault(columns.scale, len(known)) for columns in fleet.set_columns]
    return np.array([*makes, -1], dtype=np.int32)


_MAKES = Cache(_makes, on_fork=share)


def _shortage(row: int, k: int, column: int, count: int, world: Snapshot) -> Shortage:
    fleet = world.fleet
    number = int(fleet.sets[row, k])
    columns = fleet.set_columns[number]
    unit = columns.units[column]
    device = fleet.id_of(row)
    return Shortage(
        counter=columns.counters[column],
        set=columns.id.name,
        pool=device.pool_id,
        device=device,
        wanted=amount(int(fleet.table[fleet.draws[row, k], column]) * unit),
        left=amount(int(world.occupancy.left[number, column]) * unit),
        devices=count,
        holders=_holders(number, world),
    )


def _holders(number: int, world: Snapshot) -> tuple[ObjectKey, ...]:
    members = world.fleet.by_set.of(number)
    taken = members[(world.occupancy.held | world.occupancy.sharing)[members]]
    found: dict[ObjectKey, None] = {}
    for row in taken.tolist():
        found.update(dict.fromkeys(world.occupancy.claims_of(world.fleet.id_of(row))))
        if len(found) >= MOST_HOLDERS:
            break
    return tuple(found)[:MOST_HOLDERS]


def amount(nanos: int) -> Quantity:
    """An amount as a person would write it: whole mebibytes with binary suffixes."""
    whole = nanos % NANO == 0 and nanos and (nanos // NANO) % MEBI == 0
    return Quantity(nanos, Format.BINARY if whole else Format.DECIMAL)
