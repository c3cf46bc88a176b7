"""What defragmentation counts, and which pods may be moved for it, as columns that change device by
device.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import ceil
from typing import ClassVar, NamedTuple

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from kernels.groups import distinct
from kernels.types import Amounts, Codes, Rows
from reconciler.allocation.alignment.preferences import DEFAULT_TIERS
from reconciler.analysis.capacity.layout import FleetLayout, first_sets, side_by_side
from reconciler.analysis.capacity.measure import PackingProblem, Solver
from reconciler.analysis.relocation.occupants import Occupant, Occupants
from reconciler.analysis.world import WantedPod, again
from reconciler.api.objects.core import Pod, claims_of
from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.api.objects.pinning import unpinned
from reconciler.api.objects.similar_names import instead
from reconciler.errors import Rejected
from reconciler.state.devices.fleet import Fleet
from reconciler.state.store import Store
from reconciler.state.trial import Trial


class Mover(Struct, frozen=True, eq=False):
    """A pod that may be moved."""

    wanted: WantedPod
    """As its controller recreates it: without our pin to the node, with claims that need devices"""
    node: str
    claims: tuple[ObjectKey, ...]
    devices: tuple[DeviceID, ...]
    """What it holds"""
    rows: Rows
    """(n,) the same"""

    @property
    def key(self) -> ObjectKey:
        return self.pod.key

    @property
    def pod(self) -> Pod:
        assert self.wanted.pod is not None
        return self.wanted.pod

    def size(self, fleet: Fleet) -> int:
        """How much of their counter sets its devices draw, in thousandths of a set or whole device."""
        size = 0
        for row in self.rows.tolist():
            number = int(fleet.sets[row, 0]) if fleet.sets.shape[1] else -1
            if number < 0:
                size += 1000
                continue
            total, draw = fleet.totals[number], fleet.table[fleet.draws[row, 0]]
            used = total > 0
            size += int((1000 * draw[used] // total[used]).max(initial=0))
        return size


MayMove = Callable[[Occupant], bool]
"""What is asked of a pod besides MOVE-1"""


def anyone(_: Occupant) -> bool:
    """Nothing more."""
    return True


def movers_of(occupants: Occupants, store: Store, may_move: MayMove = anyone) -> tuple[Mover, ...]:
    """All pods that may be moved, by name."""
    return tuple(_movers(occupants, store, may_move))


def _movers(occupants: Occupants, store: Store, may_move: MayMove) -> Iterator[Mover]:
    living = (pod for pod in store.pods.values() if not pod.finished)
    naming = Counter(claim for pod in living for claim in claims_of(pod))
    fleet = store.snapshot().fleet
    for key, one in sorted(occupants.pods.items()):
        if not one.claims or not _replaceable(one, occupants) or not may_move(one):
            continue
        mine, named = frozenset([key]), frozenset(claims_of(one.pod))
        if any(occupants.users[claim] != mine or naming[claim] > (claim in named) for claim in one.claims):
            continue
        held = (device for claim in one.claims for device in occupants.allocations[claim].held)
        devices = tuple(dict.fromkeys(held))  # a claim may hold several shares of one
        rows = rows_of(devices, fleet)
        if len(rows) == len(devices) > 0:
            wanted = WantedPod(
                tuple(again(store.claims[claim]) for claim in one.claims), unpinned(one.pod, one.node)
            )
            yield Mover(wanted, one.node, one.claims, devices, rows)


def _replaceable(one: Occupant, occupants: Occupants) -> bool:
    """Whether the pod comes back, anywhere, and may go at all."""
    alone = occupants.together([one.pod.key]) == frozenset([one.pod.key])
    return one.movable and alone and all(occupants.budgets.allowed[number] > 0 for number in one.budgets)


def rows_of(devices: Iterable[DeviceID], fleet: Fleet) -> Rows:
    """(n,) the rows of some devices."""
    return np.array([row for device in devices for row in fleet.rows_of(device)], dtype=np.intp)


class Held(Struct, eq=False):
    """What is held of D devices and left of S counter sets: numbers to try what a trial would say, without
    one. All who count change them and change them back.
    """

    fleet: Fleet
    left: Amounts
    """(S, C)"""
    holders: Codes
    """(D,) how many hold a device"""

    @classmethod
    def of(cls, trial: Trial) -> "Held":
        """What a trial says; what is nominated for others is held, too."""
        occupancy, fleet = trial.store.snapshot().occupancy, trial.snapshot.fleet
        holders = occupancy.held.astype(np.int32)
        for row in np.flatnonzero(occupancy.sharing).tolist():
            holders[row] = len(occupancy.claims_of(fleet.id_of(row)))
        found = cls(fleet, occupancy.left.copy(), holders)
        nominated = [row for row in trial.snapshot.occupancy.held_for if not holders[row]]
        found.take(np.array(nominated, dtype=np.intp))
        return found

    def copy(self) -> "Held":
        """The same, changed independently from now on."""
        return Held(self.fleet, self.left.copy(), self.holders.copy())

    def take(self, rows: Rows, sign: int = 1) -> None:
        """Hold devices."""
        for row in rows.tolist():  # the devices of one pod
            before = int(self.holders[row])
            self.holders[row] = before + sign
            if not before or not before + sign:  # a shared device draws once
                for number, draw in zip(
                    self.fleet.sets[row].tolist(), self.fleet.draws[row].tolist(), strict=True
                ):
                    if number >= 0:
                        self.left[number] -= sign * self.fleet.table[draw]

    def give_back(self, rows: Rows) -> None:
        """Release devices."""
        self.take(rows, -1)


class Count(NamedTuple):
    """How many fit in a field. Exact if both are equal."""

    least: int
    most: int


class Goal(Struct, eq=False):
    """What is counted, and in which fields."""

    title: str
    """For users, in the singular: `device of 7g.40gb`"""
    names: tuple[str, ...]
    """The names of the fields, for users"""
    of: Codes
    """(D,) the field of each device; -1 for none"""
    rows: tuple[Rows, ...]
    """The devices of each field; of a profile those that no taint keeps out"""

    @property
    def fields(self) -> int:
        """The number of fields."""
        return len(self.names)

    def fields_of(self, rows: Rows) -> list[int]:
        """The fields of some devices."""
        found = distinct(self.of[rows])
        fields: list[int] = found[found >= 0].tolist()
        return fields


class GroupGoal(Goal, eq=False):
    """Groups of devices of which nothing is held: the devices of a node, or of a NUMA node of it."""

    all_or_nothing: ClassVar[bool] = True
    """Whether a field gains only if all its pods leave"""

    def count(self, at: int, holds: Held) -> Count:
        """How many fit in a field."""
        free = int(not holds.holders[self.rows[at]].any())
        return Count(free, free)


class ProfileGoal(Goal, eq=False, kw_only=True):
    """Devices of one profile. A field is a counter set, or the sets from which devices draw together."""

    all_or_nothing: ClassVar[bool] = False
    sets: tuple[Rows, ...]
    """The counter sets of each field"""
    every: Rows
    """All devices of the profile"""
    solver: Solver
    _wide: dict[int, Amounts] = field(default_factory=dict)

    def count(self, at: int, holds: Held) -> Count:
        """How many fit in a field."""
        draws = self._draws(at, holds.fleet)[holds.holders[self.rows[at]] == 0]
        left = holds.left[self.sets[at]].ravel()
        fitting = draws[(draws <= np.maximum(left, 0)).all(axis=1)]
        if len(fitting) < 2:
            return Count(len(fitting), len(fitting))
        self.solver.begin()
        packed = self.solver.solve(PackingProblem(fitting, left))
        return Count(packed.best, packed.bound)

    def _draws(self, at: int, fleet: Fleet) -> Amounts:
        """(n, sets x C) what the devices of a field draw from its sets, side by side. Kept."""
        if at not in self._wide:
            self._wide[at] = side_by_side(fleet, self.rows[at], self.sets[at])
        return self._wide[at]


AnyGoal = GroupGoal | ProfileGoal


def profile_goal(layout: FleetLayout, profile: int, solver: Solver) -> ProfileGoal:
    """Devices of a profile of the layout. Fields without such a device are left out."""
    fleet, driver_and_name = layout.fleet, layout.profiles.names[profile]
    mine = layout.offered & ~layout.tainted & (layout.profiles.of == profile)
    first = first_sets(fleet)
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
        _by_field(rows, of, len(roots)),
        sets=tuple(np.flatnonzero(layout.linked == one) for one in roots),
        every=np.flatnonzero(layout.profiles.of == profile),
        solver=solver,
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


def _set_name(layout: FleetLayout, number: int) -> str:
    """Pool and name of a counter set."""
    fleet = layout.fleet
    pool = int(np.searchsorted(fleet.first_set, number, side="right")) - 1
    return f"{fleet.pools[pool].id.pool}/{fleet.set_columns[number].id.name}"


def _by_field(rows: Rows, of: Codes, fields: int) -> tuple[Rows, ...]:
    order = rows[np.argsort(of[rows], kind="stable")]
    ends = np.cumsum(np.bincount(of[rows], minlength=fields))[:-1]
    return tuple(np.split(order, ends)) if fields else ()


NODE = "node"
ALIGNED = frozenset(name.rpartition("/")[2] for name in DEFAULT_TIERS)
"""Attributes of any domain that group the devices of a node"""


class Target(Struct, frozen=True):
    """How much of what. Exactly one of `gain`, `percent` and `least` is set."""

    name: str = ""
    """A profile, also as `driver/profile`, a qualified attribute, or `node`; empty for what `for_each_kind`
    finds
    """
    gain: int | None = None
    percent: int | None = None
    """Of what fits at most after any moves"""
    least: int | None = None
    """How many are to fit"""

    def __str__(self) -> str:
        name = f"{self.name}=" if self.name else ""
        return f"{name}{self.percent}%" if self.percent is not None else f"{name}{self.least or self.gain}"

    def wanted(self, before: int, most: int) -> int:
        """How much to gain."""
        if self.gain is not None:
            return self.gain
        if self.least is not None:
            return max(self.least - before, 0)
        assert self.percent is not None
        return max(ceil((before + most) * self.percent / 100) - before, 0)


def parse_goal(text: str) -> Target:
    """A standing goal: `90%`, `NAME=90%`, or `NAME=N` for how many are to fit. Raises Rejected."""
    name, _, number = text.rpartition("=")
    if number.endswith("%"):
        return parse_percent(text)
    if not name or not number.isdecimal() or not int(number):
        raise Rejected(f"goal {text}: write NAME=N with a positive number, or a percentage such as 90%")
    return Target(name, least=int(number))


def parse_percent(text: str) -> Target:
    """`90%` or `NAME=90%`. Raises Rejected."""
    name, _, number = text.rpartition("=")
    number = number.removesuffix("%")
    if not number.isdecimal() or not 0 < int(number) <= 100:
        raise Rejected(f"{text}: write a percentage from 1% to 100%, such as 7g.40gb=90%")
    return Target(name, percent=int(number))


def for_each_kind(target: Target, layout: FleetLayout) -> tuple[Target, ...]:
    """The same target; without a name, one for each kind of room that the fleet can strand.

    That is the largest profile of each driver that has partitions; and of whole devices, groups on a NUMA
    node or PCIe root, and if there are no partitions, whole nodes. None if no node has several devices.
    """
    if target.name:
        return (target,)
    profiles = _partitions(layout)
    drivers: dict[str, list[str]] = {}
    for name in profiles:
        drivers.setdefault(name.partition("/")[0], []).append(name)
    found = [min(names, key=lambda name: _by_size(name, profiles, layout)) for names in drivers.values()]
    found += sorted(filter(None, (_grouping(one, layout) for one in layout.fleet.cel.attributes)))
    if not profiles and (np.bincount(layout.node_of[layout.offered & (layout.node_of >= 0)]) > 1).any():
        found.append(NODE)
    return tuple(replace(target, name=name) for name in found)


def _grouping(attribute: tuple[str, str], layout: FleetLayout) -> str:
    """The name of an attribute that divides the whole devices of nodes into groups; empty if it does not.

    A group has several devices of one driver: a GPU with its NIC is not one that devices can be left over in.
    """
    if attribute[1] not in ALIGNED:
        return ""
    fleet = layout.fleet
    codes = fleet.cel.attributes[attribute].codes
    rows = np.flatnonzero(layout.offered & (codes >= 0) & (layout.node_of >= 0))
    if (fleet.sets[rows] >= 0).any():
        return ""
    drivers = layout.driver_of_pool[fleet.pool_of[rows]]
    found = np.stack([layout.node_of[rows], drivers, codes[rows]])
    groups, sizes = np.unique(found, axis=1, return_counts=True)
    several = groups[:, sizes > 1]
    return "/".join(attribute) if len(distinct(several[0])) < several.shape[1] else ""


def goal_of(target: Target, layout: FleetLayout) -> AnyGoal:
    """What is counted, for a target with a name. Raises Rejected if the fleet has nothing of that name."""
    if target.name == NODE:
        return node_goal(layout)
    attributes = {f"{domain}/{name}": (domain, name) for domain, name in layout.fleet.cel.attributes}
    if target.name in attributes:
        return group_goal(layout, attributes[target.name])
    profiles = _partitions(layout)
    found = [at for name, at in profiles.items() if target.name in (name, name.partition("/")[2])]
    if len(found) == 1:
        return profile_goal(layout, found[0], Solver())
    if found:
        names = sorted(name for name, at in profiles.items() if at in found)
        raise Rejected(f"several drivers have the profile {target.name}; name one of {', '.join(names)}")
    if target.name in {name for _, name in layout.profiles.names}:
        raise Rejected(
            f"devices of {target.name} draw from no counters, so moves free none of them for others; "
            f"gain {NODE}, or an attribute such as a NUMA node"
        )
    known = [*profiles, *attributes, NODE]
    raise Rejected(f"there is no profile or attribute {target.name}{instead(target.name, known, 'names')}")


def _partitions(layout: FleetLayout) -> dict[str, int]:
    """Profiles whose devices draw from counters: driver/profile -> number."""
    drawing = (layout.fleet.sets >= 0).any(axis=1) & layout.offered
    numbers = sorted({int(at) for at in layout.profiles.of[drawing]})
    return {"/".join(layout.profiles.names[at]): at for at in numbers}


def _by_size(name: str, profiles: Mapping[str, int], layout: FleetLayout) -> tuple[tuple[float, ...], str]:
    """The largest first."""
    return tuple(-part for part in layout.sizes[profiles[name]]), name
