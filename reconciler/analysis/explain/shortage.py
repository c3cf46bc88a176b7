"""The counters that are short: for one device, and for requests that fit alone but not together."""

from collections.abc import Collection, Iterator

import numpy as np
from msgspec.structs import replace

from kernels.fit import fits
from kernels.groups import distinct
from kernels.types import Amounts, Codes, Rows
from reconciler.allocation.dra.request_draws import RequestDraws, drawn_by
from reconciler.allocation.reasons.explanation import JointShortage, Shortage
from reconciler.analysis.explain.relaxation import Relaxation, RequestName
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.plan import Granted
from reconciler.api.objects.quantity import NANO, Format, Quantity
from reconciler.state.caches import Cache, share
from reconciler.state.devices.counters import Scale
from reconciler.state.devices.fleet import Fleet
from reconciler.state.devices.occupancy import Trail
from reconciler.state.devices.snapshot import Snapshot

CHUNK = 1 << 16
"""Devices compared at once; limits memory use only."""
MOST_HOLDERS = 3
"""Maximum holders that are named."""
MEBI = 1 << 20


def shortages(rows: Rows, snapshot: Snapshot, asks: RequestDraws | None = None) -> tuple[Shortage, ...]:
    """Each counter that is short for some of the devices in `rows` (n,), with its smallest shortage. `asks`
    is what they draw as a request says.

    Counters of the same name in sets of the same kind count as one. The order is by the missing part of the
    needed amount, smallest first.
    """
    best: dict[tuple[int, int], tuple[float, int, int]] = {}
    counted: dict[tuple[int, int], int] = {}
    for start in range(0, len(rows), CHUNK):
        some = rows[start : start + CHUNK]
        for set_kind, column, part, row, k, count in _smallest(some, snapshot, asks):
            key = set_kind, column
            counted[key] = counted.get(key, 0) + count
            best[key] = min(best.get(key, (part, row, k)), (part, row, k))
    order = sorted(best, key=lambda key: best[key])
    return tuple(_shortage(*best[key][1:], key[1], counted[key], snapshot, asks) for key in order)


def relative_shortage(rows: Rows, snapshot: Snapshot) -> np.ndarray:
    """(n,) float: the missing part of the needed amount of each device's scarcest counter."""
    worst = np.zeros(len(rows))
    for _, short, wanted in _short(rows, snapshot, None):
        part = np.where(short > 0, short / np.maximum(wanted, 1), 0.0).max(axis=1, initial=0.0)
        worst = np.maximum(worst, part)
    return worst


def _smallest(
    rows: Rows, snapshot: Snapshot, asks: RequestDraws | None
) -> Iterator[tuple[int, int, float, int, int, int]]:
    """Kind of set, counter, missing part, row, index among the device's sets, number of affected devices."""
    kinds = _SET_KINDS.of(snapshot.fleet)
    for k, short, wanted in _short(rows, snapshot, asks):
        kind = kinds[snapshot.fleet.sets[rows, k]]
        for code in distinct(kind).tolist():
            of_kind = np.flatnonzero(kind == code)
            part = np.where(short[of_kind] > 0, short[of_kind] / np.maximum(wanted[of_kind], 1), np.inf)
            for column in np.flatnonzero(np.isfinite(part).any(axis=0)).tolist():
                at = int(part[:, column].argmin())
                count = int(np.isfinite(part[:, column]).sum())
                yield code, column, float(part[at, column]), int(rows[of_kind[at]]), k, count


def _short(
    rows: Rows, snapshot: Snapshot, asks: RequestDraws | None
) -> Iterator[tuple[int, Amounts, Amounts]]:
    """For each index k of a device's sets: k, (n, C) missing amounts, (n, C) needed amounts."""
    fleet, left = snapshot.fleet, snapshot.occupancy.left
    for k in range(fleet.sets.shape[1]):
        sets = fleet.sets[rows, k]
        if not (sets >= 0).any():
            continue
        wanted = drawn_by(asks, rows, k, fleet)
        missing = np.maximum(wanted - left.take(sets, axis=0, mode="clip"), 0)
        yield k, np.where((sets >= 0)[:, np.newaxis] & (wanted > 0), missing, 0), wanted


def _set_kinds(fleet: Fleet) -> Codes:
    """(S + 1,) sets with the same counters in the same units have the same kind; -1, the last, is no set."""
    known: dict[Scale, int] = {}
    kinds = [known.setdefault(columns.scale, len(known)) for columns in fleet.set_columns]
    return np.array([*kinds, -1], dtype=np.int32)


_SET_KINDS = Cache(_set_kinds, on_fork=share)


def _shortage(
    row: int, k: int, column: int, count: int, snapshot: Snapshot, asks: RequestDraws | None
) -> Shortage:
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
        wanted=amount(int(drawn_by(asks, np.array([row]), k, fleet)[0, column]) * unit),
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


MOST_COUNTERS = 40
"""Most names of counters that are tried: each needs a search. A GPU has about 15."""
PLENTY = 1 << 60
"""More than any device draws, in any unit"""


def deciding_counters(
    conflict: Collection[RequestName], snapshot: Snapshot, relaxation: Relaxation
) -> tuple[JointShortage, ...]:
    """A smallest set of counters without whose limits the requests fit together, where each is short.

    Empty if other things prevent it too, or if the search gives up.
    """
    names = {name for columns in snapshot.fleet.set_columns for name in columns.counters}
    if not conflict or not 0 < len(names) <= MOST_COUNTERS:
        return ()
    answer = relaxation.answer_on(_without(names, snapshot), conflict)
    if not isinstance(answer, Granted):
        return ()
    kept = set(names)
    for name in sorted(names):
        fewer = kept - {name}
        found = relaxation.answer_on(_without(fewer, snapshot), conflict) if fewer else None
        if isinstance(found, Granted):
            kept, answer = fewer, found
    return tuple(_overdrawn(answer, kept, snapshot)) if relaxation.has_effort else ()


def _without(names: Collection[str], snapshot: Snapshot) -> Snapshot:
    """The snapshot with plenty left of some counters. It has caches of its own."""
    fleet, occupancy = snapshot.fleet, snapshot.occupancy
    left = occupancy.left.copy()
    for number, columns in enumerate(fleet.set_columns):
        for place, name in enumerate(columns.counters):
            if name in names:
                left[number, place] = PLENTY
    fitting = fits(left, fleet.table, fleet.sets, fleet.draws)
    over = np.isin(fleet.set_group, fleet.set_group[(left < 0).any(axis=1)])
    fitting &= ~((fleet.sets >= 0) & np.append(over, False)[fleet.sets]).any(axis=1)
    if occupancy.open is not None:
        fitting &= occupancy.open
    changed = replace(
        occupancy,
        left=left,
        fits=fitting,
        free=(fitting | occupancy.sharing) & ~occupancy.held,
        trail=Trail(),
        serial=0,
    )
    return replace(snapshot.fork(), occupancy=changed)


def _overdrawn(answer: Granted, names: Collection[str], snapshot: Snapshot) -> Iterator[JointShortage]:
    """The counters that the devices of an answer would overdraw."""
    fleet, occupancy = snapshot.fleet, snapshot.occupancy
    devices = dict.fromkeys(r.id for plan in answer.plans for r in plan.allocation.devices.results)
    rows = [row for device in devices for row in fleet.rows_of(device) if not occupancy.sharing[row]]
    drawn = np.zeros_like(occupancy.left)
    for k in range(fleet.sets.shape[1]):
        drawing = np.array([row for row in rows if fleet.sets[row, k] >= 0], dtype=np.intp)
        np.add.at(drawn, fleet.sets[drawing, k], fleet.table[fleet.draws[drawing, k]])
    for number, place in np.argwhere(drawn > np.maximum(occupancy.left, 0)).tolist():
        columns = fleet.set_columns[number]
        if place < len(columns.counters) and columns.counters[place] in names:
            unit = columns.units[place]
            yield JointShortage(
                counter=columns.counters[place],
                set=columns.id.name,
                pool=fleet.id_of(int(fleet.by_set.of(number)[0])).pool_id,
                node=answer.node,
                wanted=amount(int(drawn[number, place]) * unit),
                left=amount(int(occupancy.left[number, place]) * unit),
                holders=holders_of(number, snapshot),
            )
