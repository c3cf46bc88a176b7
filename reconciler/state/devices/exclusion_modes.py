"""The mode of each physical device: what is held, by which claims, and what that locks out. For messages.

And how each driver's groups are compared (GRP-12), and which expressions fail across counter sets (GRP-10).
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from kernels.groups import distinct
from kernels.types import Mask, Rows
from reconciler.api.objects.meta import DeviceID, ObjectKey, PoolID
from reconciler.api.objects.semantics import GroupMode, Semantics
from reconciler.api.objects.slices import CompatibleOnlyWith, Device
from reconciler.cel.program import CelRefused, compile_selector
from reconciler.errors import counted
from reconciler.state.devices.affinity import CLEAN, spelled
from reconciler.state.devices.exclusion import Exclusion
from reconciler.state.devices.exclusion_rules import JudgedPairs, evaluate, judged_pairs
from reconciler.state.devices.fleet import Fleet
from reconciler.state.devices.pool import Pool
from reconciler.state.devices.snapshot import Snapshot

MOST_NAMED = 3
"""Most devices that a message names."""
LOOKED_AT = 8
"""Most excluded devices that a message explains. A refusal must stay cheap."""


class Held(Struct, frozen=True):
    """A held device, with what it declares about others in one scope."""

    device: DeviceID
    groups: tuple[str, ...]
    expression: str
    """Empty if the device has none"""
    unreadable: str
    """What is wrong with an expression that cannot be evaluated; empty if it can"""
    claims: tuple[ObjectKey, ...]

    def __str__(self) -> str:
        return self.told(by_groups=True)

    def told(self, *, by_groups: bool) -> str:
        """With its groups, or with its expression if groups are not what excludes others."""
        held = f"{self.device.device} is held by {self.holders}"
        if self.groups and (by_groups or not (self.expression or self.unreadable)):
            word = "group" if len(self.groups) == 1 else "groups"
            return f"{held} with {word} {', '.join(self.groups)}"
        if self.unreadable:
            return f"{held} and {self.unreadable}"
        if self.expression:
            return f"{held} and compatible only with {self.expression}"
        return f"{held} without a group"

    @property
    def holders(self) -> str:
        return ", ".join(map(str, self.claims)) or "a claim that was just released"


class Conflict(NamedTuple):
    """Devices that are held together although they exclude one another."""

    message: str
    claims: tuple[ObjectKey, ...]


class Mode(Struct, frozen=True):
    """The mode of one counter set, or of devices that exclude each other without a common one."""

    pool: PoolID
    scope: str
    """Counter set; empty for devices without a common one"""
    node: str
    held: tuple[Held, ...]
    locked_out: tuple[str, ...]
    """Devices that the held ones exclude"""
    at_odds: tuple[Conflict, ...]

    @property
    def conflicts(self) -> tuple[str, ...]:
        """The messages of `at_odds`."""
        return tuple(conflict.message for conflict in self.at_odds)


def modes(snapshot: Snapshot) -> list[Mode]:
    """The scopes in which a device declares something about others, in the order of the fleet."""
    exclusion = snapshot.fleet.exclusion
    if exclusion is None:
        return []
    scopes = exclusion.scopes[exclusion.bound]
    return [
        _mode(snapshot, exclusion, scope, rows)
        for scope in distinct(scopes[scopes >= 0]).tolist()
        if len(rows := exclusion.by_scope.of(scope))
    ]


def conflicts(snapshot: Snapshot) -> list[Conflict]:
    """Devices that are held together although they exclude one another. They are only reported."""
    exclusion, occupancy = snapshot.fleet.exclusion, snapshot.occupancy
    if exclusion is None or occupancy.open is None:
        return []
    scopes = exclusion.scopes[_taken(snapshot) & ~occupancy.open & exclusion.bound]
    if not len(scopes):
        return []
    found: dict[tuple[PoolID, str], Conflict] = {}  # two devices may have several scopes in common
    for scope in distinct(scopes[scopes >= 0]).tolist():
        mode = _mode(snapshot, exclusion, scope, exclusion.by_scope.of(scope))
        for one in mode.at_odds:
            named = Conflict(f"{mode.pool} {mode.scope}: {one.message}", one.claims)
            found.setdefault((mode.pool, one.message), named)
    return list(found.values())


def explain(excluded: Rows, snapshot: Snapshot) -> str:
    """Why devices are excluded: `12 devices on 3 nodes: gpu-1 is held by default/train-7 with group mig`."""
    exclusion = snapshot.fleet.exclusion
    if not len(excluded):
        return ""
    nodes = distinct(snapshot.fleet.codes["node"][excluded])
    count = int(np.count_nonzero(nodes >= 0))
    where = f" on {counted(count, 'node')}" if count else ""
    looked_at = excluded[:: max(len(excluded) // LOOKED_AT, 1)][:LOOKED_AT]
    why: dict[str, None] = {}
    for text in (text for row in looked_at.tolist() for text in _reasons(snapshot, exclusion, row)):
        why[text] = None
        if len(why) > MOST_NAMED:
            break
    named = "; ".join(list(why)[:MOST_NAMED])
    more = "; and others" if len(why) > MOST_NAMED or len(excluded) > len(looked_at) else ""
    return f"{counted(len(excluded), 'device')}{where}: {named}{more}" if named else ""


def _reasons(snapshot: Snapshot, exclusion: Exclusion | None, row: int) -> Iterator[str]:
    if (lock := _lock(snapshot, row)) is not None:
        yield str(lock)
    elif exclusion is not None:
        yield from _why(snapshot, exclusion, row)


class Lock(Struct, frozen=True):
    """A shared device that its holders lock to a mode (AFF-3), a preview."""

    device: DeviceID
    mode: str
    """Empty if it cannot be told"""
    claims: tuple[ObjectKey, ...]

    def __str__(self) -> str:
        if not self.mode:
            return f"{self.device.device} is locked (preview): the mode of its holders cannot be told"
        holders = ", ".join(map(str, self.claims))
        return f"{self.device.device} is locked to {self.mode} by {holders} (preview)"


def sharing_modes(snapshot: Snapshot) -> list[Lock]:
    """The shared devices that are locked to a mode, in the order of the fleet."""
    rows = np.flatnonzero(snapshot.occupancy.lock).tolist()
    return [lock for row in rows if (lock := _lock(snapshot, row)) is not None]


def _lock(snapshot: Snapshot, row: int) -> Lock | None:
    number = int(snapshot.occupancy.lock[row])
    if number == CLEAN:
        return None
    device, mode = snapshot.fleet.id_of(row), snapshot.occupancy.locks.values[number]
    named = spelled(mode) if isinstance(mode, tuple) else ""
    return Lock(device, named, snapshot.occupancy.claims_of(device))


def _mode(snapshot: Snapshot, exclusion: Exclusion, scope: int, rows: Rows) -> Mode:
    fleet, taken = snapshot.fleet, _taken(snapshot)
    members = rows[taken[rows]]
    assert snapshot.occupancy.open is not None
    first = int(rows[0])
    at = int(fleet.pool_of[first])
    node = int(fleet.codes["node"][first])
    return Mode(
        pool=fleet.pools[at].id,
        scope=fleet.set_columns[scope].id.name if scope < exclusion.sets else "",
        node=fleet.vocabulary.nodes.values[node] if node >= 0 else "",
        held=tuple(_held(snapshot, row, scope) for row in members.tolist()),
        locked_out=tuple(
            fleet.id_of(row).device
            for row in rows.tolist()
            if not taken[row] and not snapshot.occupancy.open[row]
        ),
        at_odds=tuple(_conflicts(snapshot, exclusion, scope, members)),
    )


def _conflicts(snapshot: Snapshot, exclusion: Exclusion, scope: int, members: Rows) -> Iterator[Conflict]:
    """Excluding pairs, or else the group conflict of all held devices together."""
    found = False
    for place, row in enumerate(members.tolist()):
        for other in members[place + 1 :][_against(exclusion, row, scope, members[place + 1 :])].tolist():
            found = True
            one, two = _held(snapshot, row, scope), _held(snapshot, other, scope)
            apart = _groups_forbid(exclusion, (row, one), (other, two), scope)
            said = f"{one.told(by_groups=apart)}, but {two.told(by_groups=apart)}"
            yield Conflict(said, _holders(one, two))
    if not found and len(members) > 1 and snapshot.occupancy.common is not None:
        common = snapshot.occupancy.common[scope]
        if not common.any():
            held = [_held(snapshot, row, scope) for row in members.tolist()]
            yield Conflict(f"no common group: {', '.join(map(str, held))}", _holders(*held))


def _holders(*held: Held) -> tuple[ObjectKey, ...]:
    return tuple(sorted({claim for one in held for claim in one.claims}))


def _why(snapshot: Snapshot, exclusion: Exclusion, row: int) -> Iterator[str]:
    taken = _taken(snapshot)
    for scope in exclusion.scopes[row].tolist():
        if scope < 0:
            continue
        members = exclusion.by_scope.of(scope)
        members = members[taken[members] & (members != row)]
        against = members[_against(exclusion, row, scope, members)]
        for other in against.tolist():
            yield _conflict(snapshot, exclusion, row, other, scope)
        if not len(against):
            yield from _without_pair(snapshot, exclusion, row, scope, members)


def _without_pair(
    snapshot: Snapshot, exclusion: Exclusion, row: int, scope: int, members: Rows
) -> Iterator[str]:
    """Why a device is excluded although no single held device excludes it."""
    names = exclusion.names[row, exclusion.scopes[row] == scope]
    if not names.any():
        yield f"{snapshot.fleet.id_of(row).device} declares groups, but DRADeviceCompatibilityGroups is off"
    elif snapshot.occupancy.common is not None and not (names & snapshot.occupancy.common[scope]).any():
        held = "; ".join(str(_held(snapshot, other, scope)) for other in members[:MOST_NAMED].tolist())
        yield f"no group is common to it and all held devices ({held})"


def _conflict(snapshot: Snapshot, exclusion: Exclusion, row: int, other: int, scope: int) -> str:
    """Why a held device excludes a candidate. The candidate's own expression is named if it is the reason."""
    own, held = _held(snapshot, row, scope), _held(snapshot, other, scope)
    if _groups_forbid(exclusion, (row, own), (other, held), scope):
        return str(held)
    mine, theirs = _place(exclusion, row, scope), _place(exclusion, other, scope)
    if (own.expression or own.unreadable) and (
        exclusion.asks[row, mine] & ~exclusion.meets[other, theirs]
    ).any():
        why = own.unreadable or f"is compatible only with {own.expression}"
        return f"{own.device.device} {why}, and {held.device.device} is held by {held.holders}"
    return held.told(by_groups=False)


def _groups_forbid(exclusion: Exclusion, one: tuple[int, Held], other: tuple[int, Held], scope: int) -> bool:
    """Whether groups keep two devices apart. In `pairwise` mode they are bits like those of expressions."""
    (row, mine), (at, theirs) = one, other
    names = exclusion.names[row, _place(exclusion, row, scope)]
    if not (names & exclusion.names[at, _place(exclusion, at, scope)]).any():
        return True
    return bool(mine.groups and theirs.groups) and set(mine.groups).isdisjoint(theirs.groups)


def _unreadable(stated: CompatibleOnlyWith | None) -> str:
    """What follows from an expression that cannot be evaluated; empty if it can, or there is none."""
    if stated is None:
        return ""
    none = "is compatible with no other device"
    if not stated.expression.strip():
        return f"{none}: its compatibleOnlyWith has an empty expression"
    try:
        compile_selector(stated.expression)
    except CelRefused as refused:
        return f"{none}: its compatibleOnlyWith {stated.expression!r} does not compile: {refused}"
    return ""


def _against(exclusion: Exclusion, row: int, scope: int, others: Rows) -> Mask:
    """(n,) which of the `others` in a scope are incompatible with the device in `row`."""
    mine = _place(exclusion, row, scope)
    theirs = (exclusion.scopes[others] == scope).argmax(axis=1)
    apart = ~(exclusion.names[row, mine] & exclusion.names[others, theirs]).any(axis=1)
    asks, meets = exclusion.asks[others, theirs], exclusion.meets[others, theirs]
    missed = (exclusion.asks[row, mine] & ~meets) | (asks & ~exclusion.meets[row, mine])
    return np.asarray(apart | (missed != 0).any(axis=1))


def _place(exclusion: Exclusion, row: int, scope: int) -> int:
    return int((exclusion.scopes[row] == scope).argmax())


def _held(snapshot: Snapshot, row: int, scope: int) -> Held:
    fleet = snapshot.fleet
    device, name = _device(fleet, row), fleet.id_of(row)
    counter_set = fleet.set_columns[scope].id.name if scope < len(fleet.set_columns) else None
    stated = device.compatible_only_with
    return Held(
        device=name,
        groups=tuple(
            dict.fromkeys(
                group
                for draw in device.consumes_counters
                if draw.counter_set == counter_set
                for group in draw.compatibility_groups
            )
        ),
        expression=stated.expression if stated is not None else "",
        unreadable=_unreadable(stated),
        claims=snapshot.occupancy.claims_of(name),
    )


def _device(fleet: Fleet, row: int) -> Device:
    at = int(fleet.pool_of[row])
    pool = fleet.pools[at]
    local = row - int(fleet.start[at])
    block = int(np.searchsorted(pool.offsets, local, side="right")) - 1
    return pool.blocks[block].source().spec.devices[local - int(pool.offsets[block])]


def _taken(snapshot: Snapshot) -> Mask:
    return snapshot.occupancy.held | snapshot.occupancy.sharing


def problems(snapshot: Snapshot) -> Sequence[str]:
    """Expressions that fail or cannot be compiled. The affected pairs are incompatible."""
    exclusion = snapshot.fleet.exclusion
    return [f"{problem.device}: {problem.message}" for problem in exclusion.problems] if exclusion else []


class DriverMode(Struct, frozen=True):
    """The group mode of one driver."""

    driver: str
    mode: GroupMode
    because: str


def group_modes(snapshot: Snapshot) -> list[DriverMode]:
    """The drivers whose devices declare something about others, sorted."""
    exclusion = snapshot.fleet.exclusion
    if exclusion is None:
        return []
    return [
        DriverMode(driver, mode, _why_compared(snapshot, driver, mode))
        for driver, mode in sorted(exclusion.modes.items())
    ]


def held_of(snapshot: Snapshot, driver: str) -> int:
    """How many devices of a driver are held."""
    fleet, occupancy = snapshot.fleet, snapshot.occupancy
    pools = [at for at, pool in enumerate(fleet.pools) if pool.id.driver == driver]
    taken = (occupancy.held | occupancy.sharing) & np.isin(fleet.pool_of, pools)
    return int(np.count_nonzero(taken))


def _why_compared(snapshot: Snapshot, driver: str, mode: GroupMode) -> str:
    if snapshot.rules.explicit_group_mode(driver) is not None:
        return "set by --group-mode"
    if mode == "pairwise":
        return "default for drivers whose devices say compatibleOnlyWith"
    return "default for drivers whose devices do not say compatibleOnlyWith"


class AcrossSets(NamedTuple):
    """A device whose expression is not true for devices that it is not compared with."""

    row: int
    """Row of the fleet"""
    others: Rows
    """(n,) rows of the fleet; not empty"""


def across_sets(fleet: Fleet, rules: Semantics) -> Iterator[AcrossSets]:
    """One device for each expression of a driver, from the first pool that has one. Evaluates them again."""
    reported: set[tuple[str, str]] = set()
    for pool, start in zip(fleet.pools, fleet.start.tolist(), strict=False):
        if rules.exclusion_scope(pool.id.driver) == "pool" or not any(block.states for block in pool.blocks):
            continue
        for found, expression in _of_pool(pool, fleet):
            if (pool.id.driver, expression) not in reported:
                reported.add((pool.id.driver, expression))
                yield AcrossSets(found.row + start, found.others + start)


def _of_pool(pool: Pool, fleet: Fleet) -> Iterator[tuple[AcrossSets, str]]:
    devices = [device for block in pool.blocks for device in block.source().spec.devices]
    pairs = judged_pairs(pool.blocks, pool.counters, everywhere=False)
    stated, _ = evaluate(pool.id, pool.blocks, devices, pairs, fleet.vocabulary)
    for one in stated:
        for row in np.flatnonzero(one.by & ~pairs.alone).tolist():
            others = np.flatnonzero(~one.true & _elsewhere(pairs, row))
            stating = devices[row].compatible_only_with
            if len(others) and stating is not None:
                yield AcrossSets(row, others), stating.expression
                break


def _elsewhere(pairs: JudgedPairs, row: int) -> Mask:
    """(n,) devices of the same place that draw from other counter sets only."""
    own = pairs.sets[row]
    shared = np.isin(pairs.sets, own[own >= 0]).any(axis=1)
    found: Mask = (pairs.place == pairs.place[row]) & ~pairs.alone & ~shared
    return found
