"""Utilization of the devices by type and by machine, computed from the columns."""

import numpy as np
from msgspec import Struct

from kernels.types import Codes, Rows
from reconciler.allocation.koordinator.fleet import Fleet
from reconciler.analysis.capacity.machine_state import STATES
from reconciler.api.koordinator.names import TYPES
from reconciler.state.koordinator.columns import RESOURCES, Columns


class Tally(Struct, frozen=True):
    """Counts of the devices of one type, for one machine or all."""

    node: str
    """Empty for all machines"""
    kind: str
    states: tuple[int, ...]
    """Number of devices in each of STATES"""
    amounts: tuple[tuple[str, float, float], ...]
    """Resource, total of healthy devices, and free amount. Floats: the sums are only for display"""
    functions: int
    """Virtual functions"""
    functions_free: int

    @property
    def devices(self) -> int:
        """All devices."""
        return sum(self.states)


Series = list[tuple[tuple[str, ...], float]]
"""Labels and value"""


def driver(kind: str) -> str:
    """The value for the driver column of reports."""
    return f"koordinator.sh/{kind}"


def device_series(fleet: Fleet) -> Series:
    """Devices by type and state."""
    return [
        ((driver(tally.kind), state), float(count))
        for tally in by_type(fleet)
        for state, count in zip(STATES, tally.states, strict=True)
    ]


def amount_series(fleet: Fleet, *, left: bool) -> Series:
    """The total or free amount of each resource of healthy devices, by type."""
    found: Series = []
    for tally in by_type(fleet):
        found += [
            ((driver(tally.kind), name), free if left else total) for name, total, free in tally.amounts
        ]
        if tally.functions:
            count = tally.functions_free if left else tally.functions
            found.append(((driver(tally.kind), "virtual-functions"), float(count)))
    return found


def by_type(fleet: Fleet) -> list[Tally]:
    """One Tally for each type with devices."""
    return _tallies(fleet.columns, np.zeros(len(fleet.columns.owner), np.intp), [""], fleet.rules.upstream)


def by_node(fleet: Fleet) -> list[Tally]:
    """One Tally for each machine and type, sorted by machine name."""
    order = sorted(range(len(fleet.names)), key=fleet.names.__getitem__)
    place = np.argsort(np.array(order, dtype=np.intp))
    owner = fleet.columns.owner
    part = place[np.maximum(owner, 0)] if order else np.zeros(len(owner), np.intp)
    return _tallies(fleet.columns, part, [fleet.names[number] for number in order], fleet.rules.upstream)


def states(columns: Columns, *, upstream: bool) -> Codes:
    """(R,) index in STATES of each row in use."""
    usable = columns.some & columns.health
    if not upstream:
        usable &= ~columns.closed
    return np.where(columns.held, np.where(usable, 1, 0), np.where(usable, 2, 3)).astype(np.int32)


def _tallies(columns: Columns, part: Rows, names: list[str], upstream: bool) -> list[Tally]:
    """Devices of each part and type.

    part (R,)  index in `names`
    """
    rows = np.flatnonzero(columns.owner >= 0)
    line = part[rows] * len(TYPES) + columns.kind[rows]
    size = len(names) * len(TYPES)
    code = line * len(STATES) + states(columns, upstream=upstream)[rows]
    counts = np.bincount(code, minlength=size * len(STATES)).reshape(size, len(STATES))
    functions, unused = (
        np.bincount(line, weights=column[rows], minlength=size).astype(np.int64)
        for column in (columns.functions, columns.vfs)
    )
    sums = [
        [
            np.bincount(line, weights=of[rows, k].astype(np.float64), minlength=size)
            for k in range(len(RESOURCES))
        ]
        for of in (columns.total, columns.free)
    ]
    total, free = (np.stack(column, axis=1) for column in sums)
    return [
        Tally(
            node=names[at // len(TYPES)],
            kind=TYPES[at % len(TYPES)],
            states=tuple(counts[at].tolist()),
            amounts=tuple(
                (RESOURCES[k], float(total[at, k]), float(free[at, k]))
                for k in np.flatnonzero(total[at]).tolist()
            ),
            functions=int(functions[at]),
            functions_free=int(unused[at]),
        )
        for at in np.flatnonzero(counts.any(axis=1)).tolist()
    ]
