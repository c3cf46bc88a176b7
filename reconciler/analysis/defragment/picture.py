"""A field as a row of cells: who holds each place of it. The map of the status page shows the same places."""

from collections.abc import Iterator

import numpy as np

from kernels.distinct import distinct
from kernels.types import Rows
from reconciler.analysis.capacity.families import families
from reconciler.analysis.defragment.goals import Goal
from reconciler.api.objects.meta import ObjectKey
from reconciler.state.devices.snapshot.snapshot import Snapshot

Cells = tuple[ObjectKey | None, ...]
"""The claim that holds each place; None for a free one"""


def cells_of(goal: Goal, at: int, snapshot: Snapshot) -> Cells:
    """The places of a field: numbered counters such as memory slices, or else the devices."""
    rows = np.flatnonzero(goal.of == at)
    return tuple(_cells(rows, snapshot))


def _cells(rows: Rows, snapshot: Snapshot) -> Iterator[ObjectKey | None]:
    fleet, occupancy = snapshot.fleet, snapshot.occupancy
    held = rows[occupancy.held[rows] | occupancy.sharing[rows]]
    claim_of = {row: next(iter(occupancy.claims_of(fleet.id_of(row))), None) for row in held.tolist()}
    drawing = fleet.sets[rows]
    sets = distinct(drawing[drawing >= 0]).tolist()
    for number in sets:
        for counter in _numbered(number, snapshot):
            yield next(
                (claim_of[row] for row in held.tolist() if _draws(row, number, counter, snapshot)), None
            )
    if not sets:
        yield from (claim_of.get(row) for row in rows.tolist())


def _numbered(number: int, snapshot: Snapshot) -> list[int]:
    """The counters of the largest family of a set, in order; of equal ones the first by name."""
    names, of_counter = families(snapshot.fleet.set_columns[number].scale)
    family = max(range(len(names)), key=lambda at: (of_counter.count(at), -at), default=0)
    return [counter for counter, of in enumerate(of_counter) if of == family]


def _draws(row: int, number: int, counter: int, snapshot: Snapshot) -> bool:
    fleet = snapshot.fleet
    pairs = zip(fleet.sets[row].tolist(), fleet.draws[row].tolist(), strict=True)
    return any(one == number and fleet.table[draw, counter] > 0 for one, draw in pairs)
