"""What defragmentation counts: devices of a profile, groups of devices, or nodes that can be had at once.

The fleet is divided into fields, such as the counter sets of one GPU. Each holds a number of what is counted,
which depends on what is left in it alone.
"""

from typing import NamedTuple, Protocol

import numpy as np
from msgspec import Struct, field

from kernels.distinct import distinct
from kernels.types import Amounts, Codes, Rows
from reconciler.analysis.capacity.layout import FleetLayout
from reconciler.analysis.capacity.solver import PackingProblem, Solver
from reconciler.analysis.defragment.holds import Holds
from reconciler.state.devices.pools.fleet import Fleet


class Count(NamedTuple):
    """How many fit in a field. Exact if both are equal."""

    least: int
    most: int


class Goal(Protocol):
    """What is counted, and in which fields."""

    title: str
    """For users, in the singular: `device of 7g.40gb`"""
    of: Codes
    """(D,) the field of each device; -1 for none"""
    all_or_nothing: bool
    """Whether a field gains only if all its pods leave"""

    @property
    def fields(self) -> int:
        """The number of fields."""
        ...

    def name(self, at: int) -> str:
        """The name of a field, for users."""
        ...

    def count(self, at: int, holds: Holds) -> Count:
        """How many fit in a field."""
        ...

    def state(self, at: int, holds: Holds) -> bytes:
        """Equal for fields in which a device of equal draws costs the same; empty if that is not known."""
        ...


class GroupGoal(Struct, eq=False):
    """Groups of devices of which nothing is held: the devices of a node, or of a NUMA node of it."""

    title: str
    names: tuple[str, ...]
    of: Codes
    rows: tuple[Rows, ...]
    """The devices of each field"""
    all_or_nothing: bool = True

    @property
    def fields(self) -> int:
        return len(self.names)

    def name(self, at: int) -> str:
        return self.names[at]

    def count(self, at: int, holds: Holds) -> Count:
        free = int(not holds.holders[self.rows[at]].any())
        return Count(free, free)

    def state(self, at: int, holds: Holds) -> bytes:
        return bytes([1 + self.count(at, holds).least])


class ProfileGoal(Struct, eq=False):
    """Devices of one profile. A field is a counter set, or the sets from which devices draw together."""

    title: str
    names: tuple[str, ...]
    of: Codes
    sets: tuple[Rows, ...]
    """The counter sets of each field"""
    rows: tuple[Rows, ...]
    """The devices of the profile in each field that no taint keeps out"""
    every: Rows
    """All devices of the profile"""
    solver: Solver
    all_or_nothing: bool = False
    _wide: dict[int, Amounts] = field(default_factory=dict)

    @property
    def fields(self) -> int:
        return len(self.names)

    def name(self, at: int) -> str:
        return self.names[at]

    def count(self, at: int, holds: Holds) -> Count:
        rows = self.rows[at]
        open_ones = holds.holders[rows] == 0
        draws = self._draws(at, holds.fleet)[open_ones]
        left = holds.left[self.sets[at]].ravel()
        fitting = draws[(draws <= np.maximum(left, 0)).all(axis=1)]
        if len(fitting) < 2:
            return Count(len(fitting), len(fitting))
        self.solver.begin()
        packed = self.solver.solve(PackingProblem(fitting, left))
        return Count(packed.best, packed.bound)

    def state(self, at: int, holds: Holds) -> bytes:
        if len(self.sets[at]) > 1:  # the draws do not say from which set
            return b""
        rows = self.rows[at]
        draws = holds.fleet.draws[rows].tobytes()
        return holds.left[self.sets[at]].tobytes() + (holds.holders[rows] > 0).tobytes() + draws

    def _draws(self, at: int, fleet: Fleet) -> Amounts:
        """(n, sets x C) what the devices of a field draw from its sets, side by side. Kept."""
        if at not in self._wide:
            rows, sets = self.rows[at], self.sets[at]
            wide = np.zeros((len(rows), len(sets), fleet.totals.shape[1]), dtype=np.int64)
            for k in range(fleet.sets.shape[1]):
                uses = np.flatnonzero(fleet.sets[rows, k] >= 0)
                place = np.searchsorted(sets, fleet.sets[rows[uses], k])
                wide[uses, place] += fleet.table[fleet.draws[rows[uses], k]]
            self._wide[at] = wide.reshape(len(rows), -1)
        return self._wide[at]


def profile_goal(layout: FleetLayout, profile: int, solver: Solver) -> ProfileGoal:
    """Devices of a profile of the layout. Fields without such a device are left out."""
    fleet, driver_and_name = layout.fleet, layout.profiles.names[profile]
    mine = layout.offered & ~layout.tainted & (layout.profiles.of == profile)
    first = _first_set(fleet)
    root = np.where(first >= 0, np.append(layout.linked, -1)[first], -1)
    roots = distinct(root[mine & (root >= 0)])
    of = np.full(fleet.size, -1, dtype=np.int32)
    inside = np.isin(root, roots)
    of[inside] = np.searchsorted(roots, root[inside])
    rows = np.flatnonzero(mine & (of >= 0))
    return ProfileGoal(
        f"device of {driver_and_name[1]}",
        tuple(_set_name(layout, int(one)) for one in roots),
        of,
        tuple(np.flatnonzero(layout.linked == one) for one in roots),
        _by_field(rows, of, len(roots)),
        np.flatnonzero(layout.profiles.of == profile),
        solver,
    )


def node_goal(layout: FleetLayout) -> GroupGoal:
    """Nodes of which no device is held."""
    values = layout.fleet.vocabulary.nodes.values
    used = distinct(layout.node_of[layout.offered & (layout.node_of >= 0)])
    of = np.full(layout.fleet.size, -1, dtype=np.int32)
    inside = np.isin(layout.node_of, used)  # not nodes whose devices are all outdated or invalid
    of[inside] = np.searchsorted(used, layout.node_of[inside])
    rows = np.flatnonzero(inside)
    return GroupGoal("free node", tuple(values[code] for code in used), of, _by_field(rows, of, len(used)))


def group_goal(layout: FleetLayout, attribute: tuple[str, str]) -> GroupGoal:
    """Groups of devices of one node with one value of an attribute, of which no device is held."""
    fleet = layout.fleet
    column = fleet.cel.attributes[attribute]
    codes, nodes = column.codes.astype(np.int64), layout.node_of.astype(np.int64)
    rows = np.flatnonzero(layout.offered & (codes >= 0) & (nodes >= 0))
    pairs = nodes[rows] * len(column.values) + codes[rows]
    used, place = np.unique(pairs, return_inverse=True)
    of = np.full(fleet.size, -1, dtype=np.int32)
    of[rows] = place
    names = [
        f"{fleet.vocabulary.nodes.values[pair // len(column.values)]} "
        f"{attribute[1]} {column.values[pair % len(column.values)]}"
        for pair in used.tolist()
    ]
    return GroupGoal(f"free group of equal {attribute[1]}", tuple(names), of, _by_field(rows, of, len(used)))


def _first_set(fleet: Fleet) -> Codes:
    """(D,) the first counter set of each device; -1 for none."""
    if not fleet.sets.shape[1]:
        return np.full(fleet.size, -1, dtype=np.int32)
    at = (fleet.sets >= 0).argmax(axis=1)
    return fleet.sets[np.arange(fleet.size), at]


def _set_name(layout: FleetLayout, number: int) -> str:
    """Pool and name of a counter set."""
    fleet = layout.fleet
    pool = int(np.searchsorted(fleet.first_set, number, side="right")) - 1
    return f"{fleet.pools[pool].id.pool}/{fleet.set_columns[number].id.name}"


def _by_field(rows: Rows, of: Codes, fields: int) -> tuple[Rows, ...]:
    order = rows[np.argsort(of[rows], kind="stable")]
    ends = np.cumsum(np.bincount(of[rows], minlength=fields))[:-1]
    return tuple(np.split(order, ends)) if fields else ()
