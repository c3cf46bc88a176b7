"""The counters that prevent that requests are met together, although each of their devices fits alone."""

from collections.abc import Collection, Iterator

import numpy as np
from msgspec.structs import replace

from kernels.fit import fits
from reconciler.allocation.reasons.explanation import JointShortage
from reconciler.analysis.explain.relaxation import Relaxation, RequestName
from reconciler.analysis.explain.shortage import amount, holders_of
from reconciler.api.objects.plan import Granted
from reconciler.state.devices.occupancy.trail import Trail
from reconciler.state.devices.snapshot.snapshot import Snapshot

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
    return tuple(_short(answer, kept, snapshot)) if relaxation.has_effort else ()


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


def _short(answer: Granted, names: Collection[str], snapshot: Snapshot) -> Iterator[JointShortage]:
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
