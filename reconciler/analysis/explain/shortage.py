"""Which counters are short, and by how much for the device that is closest to fitting."""

from collections.abc import Iterator

import numpy as np

from kernels.distinct import distinct
from kernels.types import Amounts, Codes, Rows
from reconciler.allocation.reasons.explanation import Shortage
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.quantity import NANO, Format, Quantity
from reconciler.state.caches import Cache, share
from reconciler.state.devices.pools.counters import Scale
from reconciler.state.devices.pools.fleet import Fleet
from reconciler.state.devices.snapshot.snapshot import Snapshot

CHUNK = 1 << 16
"""Devices compared at once; limits memory use only."""
MOST_HOLDERS = 3
"""Maximum holders that are named."""
MEBI = 1 << 20


def shortages(rows: Rows, snapshot: Snapshot) -> tuple[Shortage, ...]:
    """Each counter that is short for some of the devices in `rows` (n,), with its smallest shortage.

    Counters of the same name in sets of the same kind count as one. The order is by the missing part of the
    needed amount, smallest first.
    """
    best: dict[tuple[int, int], tuple[float, int, int]] = {}
    counted: dict[tuple[int, int], int] = {}
    for start in range(0, len(rows), CHUNK):
        some = rows[start : start + CHUNK]
        for set_kind, column, part, row, k, count in _smallest(some, snapshot):
            key = set_kind, column
            counted[key] = counted.get(key, 0) + count
            best[key] = min(best.get(key, (part, row, k)), (part, row, k))
    order = sorted(best, key=lambda key: best[key])
    return tuple(_shortage(*best[key][1:], key[1], counted[key], snapshot) for key in order)


def shortages_of_device(row: int, snapshot: Snapshot) -> tuple[Shortage, ...]:
    """The counters that are short for one device; the scarcest is last."""
    return shortages(np.array([row], dtype=np.intp), snapshot)


def relative_shortage(rows: Rows, snapshot: Snapshot) -> np.ndarray:
    """(n,) float: the missing part of the needed amount of each device's scarcest counter."""
    worst = np.zeros(len(rows))
    for _, short, wanted in _short(rows, snapshot):
        part = np.where(short > 0, short / np.maximum(wanted, 1), 0.0).max(axis=1, initial=0.0)
        worst = np.maximum(worst, part)
    return worst


def _smallest(rows: Rows, snapshot: Snapshot) -> Iterator[tuple[int, int, float, int, int, int]]:
    """Kind of set, counter, missing part, row, index among the device's sets, number of affected devices."""
    kinds = _SET_KINDS.of(snapshot.fleet)
    for k, short, wanted in _short(rows, snapshot):
        kind = kinds[snapshot.fleet.sets[rows, k]]
        for code in distinct(kind).tolist():
            of_kind = np.flatnonzero(kind == code)
            part = np.where(short[of_kind] > 0, short[of_kind] / np.maximum(wanted[of_kind], 1), np.inf)
            for column in np.flatnonzero(np.isfinite(part).any(axis=0)).tolist():
                at = int(part[:, column].argmin())
                count = int(np.isfinite(part[:, column]).sum())
                yield code, column, float(part[at, column]), int(rows[of_kind[at]]), k, count


def _short(rows: Rows, snapshot: Snapshot) -> Iterator[tuple[int, Amounts, Amounts]]:
    """For each index k of a device's sets: k, (n, C) missing amounts, (n, C) needed amounts."""
    fleet, left = snapshot.fleet, snapshot.occupancy.left
    for k in range(fleet.sets.shape[1]):
        sets = fleet.sets[rows, k]
        if not (sets >= 0).any():
            continue
        wanted = fleet.table.take(fleet.draws[rows, k], axis=0, mode="clip")
        missing = np.maximum(wanted - left.take(sets, axis=0, mode="clip"), 0)
        yield k, np.where((sets >= 0)[:, np.newaxis] & (wanted > 0), missing, 0), wanted


def _set_kinds(fleet: Fleet) -> Codes:
    """(S + 1,) sets with the same counters in the same units have the same kind; -1, the last, is no set."""
    known: dict[Scale, int] = {}
    kinds = [known.setdefault(columns.scale, len(known)) for columns in fleet.set_columns]
    return np.array([*kinds, -1], dtype=np.int32)


_SET_KINDS = Cache(_set_kinds, on_fork=share)


def _shortage(row: int, k: int, column: int, count: int, snapshot: Snapshot) -> Shortage:
    fleet = snapshot.fleet
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
        left=amount(int(snapshot.occupancy.left[number, column]) * unit),
        devices=count,
        holders=holders_of(number, snapshot),
    )


def holders_of(number: int, snapshot: Snapshot) -> tuple[ObjectKey, ...]:
    """Some of the claims that hold parts of a counter set."""
    members = snapshot.fleet.by_set.of(number)
    taken = members[(snapshot.occupancy.held | snapshot.occupancy.sharing)[members]]
    found: dict[ObjectKey, None] = {}
    for row in taken.tolist():
        found.update(dict.fromkeys(snapshot.occupancy.claims_of(snapshot.fleet.id_of(row))))
        if len(found) >= MOST_HOLDERS:
            break
    return tuple(found)[:MOST_HOLDERS]


def amount(nanos: int) -> Quantity:
    """A quantity that is readable: whole mebibytes have binary suffixes."""
    whole = nanos % NANO == 0 and nanos and (nanos // NANO) % MEBI == 0
    return Quantity(nanos, Format.BINARY if whole else Format.DECIMAL)
