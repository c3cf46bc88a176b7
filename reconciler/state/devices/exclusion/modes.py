"""In which mode each physical device is: what is held, by whom, and what that locks out. For people."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from kernels.types import Mask, Rows
from reconciler.api.objects.meta import DeviceID, ObjectKey, PoolID
from reconciler.api.objects.slices import Device
from reconciler.state.devices.exclusion.scopes import Exclusion
from reconciler.state.devices.pools.fleet import Fleet
from reconciler.state.devices.snapshot.snapshot import Snapshot

MOST_NAMED = 3
"""Devices that a message names."""
LOOKED_AT = 8
"""Excluded devices for which a message looks for what stands against them. A refusal must stay cheap."""


@dataclass(frozen=True, slots=True)
class Held:
    """A device that is held, with what it says about others in one scope."""

    device: DeviceID
    groups: tuple[str, ...]
    expression: str
    """Empty if it has none"""
    claims: tuple[ObjectKey, ...]

    def __str__(self) -> str:
        by = f"for {', '.join(map(str, self.claims))}" if self.claims else "for a claim that just let go"
        if self.groups:
            word = "group" if len(self.groups) == 1 else "groups"
            return f"{self.device.device} holds {word} {', '.join(self.groups)} {by}"
        if self.expression:
            return f"{self.device.device}, held {by}, goes only with {self.expression}"
        return f"{self.device.device} is held without group {by}"


@dataclass(frozen=True, slots=True)
class Mode:
    """One counter set, or the devices of a pool that draw from none."""

    pool: PoolID
    scope: str
    """The counter set; empty for devices that draw from none"""
    node: str
    held: tuple[Held, ...]
    locked_out: tuple[str, ...]
    """Devices that could not join what is held"""
    conflicts: tuple[str, ...]
    """What is held side by side though it excludes one another"""


def modes(world: Snapshot) -> list[Mode]:
    """The scopes in which a device says something about others, in the order of the fleet."""
    exclusion = world.fleet.exclusion
    if exclusion is None:
        return []
    scopes = exclusion.scopes[exclusion.bound]
    return [
        _mode(world, exclusion, scope, rows)
        for scope in np.unique(scopes[scopes >= 0]).tolist()
        if len(rows := exclusion.by_scope.of(scope))
    ]


def conflicts(world: Snapshot) -> list[str]:
    """Devices that are held side by side though they exclude one another; nothing is undone."""
    exclusion, occupancy = world.fleet.exclusion, world.occupancy
    if exclusion is None or occupancy.open is None:
        return []
    scopes = exclusion.scopes[_taken(world) & ~occupancy.open & exclusion.bound]
    if not len(scopes):
        return []
    found = (
        _mode(world, exclusion, scope, exclusion.by_scope.of(scope))
        for scope in np.unique(scopes[scopes >= 0]).tolist()
    )
    return [f"{mode.pool} {mode.scope}: {text}" for mode in found for text in mode.conflicts]


def explain(excluded: Rows, world: Snapshot) -> str:
    """What stands against devices: `12 devices on 3 nodes: gpu-1 holds group mig for default/train-7`."""
    exclusion = world.fleet.exclusion
    if exclusion is None or not len(excluded):
        return ""
    nodes = np.unique(world.fleet.codes["node"][excluded])
    count = int(np.count_nonzero(nodes >= 0))
    where = f" on {count} node{'' if count == 1 else 's'}" if count else ""
    looked_at = excluded[:: max(len(excluded) // LOOKED_AT, 1)][:LOOKED_AT]
    why: dict[str, None] = {}
    for text in (text for row in looked_at.tolist() for text in _why(world, exclusion, row)):
        why[text] = None
        if len(why) > MOST_NAMED:
            break
    named = "; ".join(list(why)[:MOST_NAMED])
    more = "; and others" if len(why) > MOST_NAMED or len(excluded) > len(looked_at) else ""
    return f"{len(excluded)} device{'' if len(excluded) == 1 else 's'}{where}: {named}{more}"


def _mode(world: Snapshot, exclusion: Exclusion, scope: int, rows: Rows) -> Mode:
    fleet, taken = world.fleet, _taken(world)
    members = rows[taken[rows]]
    assert world.occupancy.open is not None
    first = int(rows[0])
    at = int(fleet.pool_of[first])
    node = int(fleet.codes["node"][first])
    return Mode(
        pool=fleet.pools[at].id,
        scope=fleet.set_columns[scope].id.name if scope < exclusion.sets else "",
        node=fleet.words.nodes.values[node] if node >= 0 else "",
        held=tuple(_held(world, row, scope) for row in members.tolist()),
        locked_out=tuple(
            fleet.id_of(row).device
            for row in rows.tolist()
            if not taken[row] and not world.occupancy.open[row]
        ),
        conflicts=tuple(_conflicts(world, exclusion, scope, members)),
    )


def _conflicts(world: Snapshot, exclusion: Exclusion, scope: int, members: Rows) -> Iterator[str]:
    """Pairs first; what excludes one another only as a whole is named as such."""
    found = False
    for place, row in enumerate(members.tolist()):
        for other in members[place + 1 :][_against(exclusion, row, scope, members[place + 1 :])].tolist():
            found = True
            yield f"{_held(world, row, scope)}, but {_held(world, other, scope)}"
    if not found and len(members) > 1 and world.occupancy.common is not None:
        common = world.occupancy.common[scope]
        if not common.any():
            held = ", ".join(str(_held(world, row, scope)) for row in members.tolist())
            yield f"no group is common to {held}"


def _why(world: Snapshot, exclusion: Exclusion, row: int) -> Iterator[str]:
    taken = _taken(world)
    for scope in exclusion.scopes[row].tolist():
        if scope < 0:
            continue
        members = exclusion.by_scope.of(scope)
        members = members[taken[members] & (members != row)]
        against = members[_against(exclusion, row, scope, members)]
        for other in against.tolist():
            yield _stands(world, exclusion, row, other, scope)
        if not len(against):
            yield from _alone(world, exclusion, row, scope, members)


def _alone(world: Snapshot, exclusion: Exclusion, row: int, scope: int, members: Rows) -> Iterator[str]:
    """Why a device is excluded that no single other one excludes."""
    names = exclusion.names[row, exclusion.scopes[row] == scope]
    if not names.any():
        yield f"{world.fleet.id_of(row).device} declares groups, for which the feature gate is off"
    elif world.occupancy.common is not None and not (names & world.occupancy.common[scope]).any():
        held = "; ".join(str(_held(world, other, scope)) for other in members[:MOST_NAMED].tolist())
        yield f"no group is common to it and all that is held ({held})"


def _stands(world: Snapshot, exclusion: Exclusion, row: int, other: int, scope: int) -> str:
    """One held device, and its own expression or that of the candidate if it is that which excludes."""
    held = _held(world, other, scope)
    mine, theirs = _place(exclusion, row, scope), _place(exclusion, other, scope)
    if not (exclusion.names[row, mine] & exclusion.names[other, theirs]).any():
        return str(held)
    said = _device(world.fleet, row).compatible_only_with
    if said is not None and (exclusion.asks[row, mine] & ~exclusion.meets[other, theirs]).any():
        claims = ", ".join(map(str, held.claims)) or "a claim that just let go"
        name = world.fleet.id_of(row).device
        return f"{name} goes only with {said.expression}, and {held.device.device} is held for {claims}"
    return str(held)


def _against(exclusion: Exclusion, row: int, scope: int, others: Rows) -> Mask:
    """(n,) which of some devices in a scope do not go with one of them."""
    mine = _place(exclusion, row, scope)
    theirs = (exclusion.scopes[others] == scope).argmax(axis=1)
    apart = ~(exclusion.names[row, mine] & exclusion.names[others, theirs]).any(axis=1)
    asks, meets = exclusion.asks[others, theirs], exclusion.meets[others, theirs]
    missed = (exclusion.asks[row, mine] & ~meets) | (asks & ~exclusion.meets[row, mine])
    return np.asarray(apart | (missed != 0).any(axis=1))


def _place(exclusion: Exclusion, row: int, scope: int) -> int:
    return int((exclusion.scopes[row] == scope).argmax())


def _held(world: Snapshot, row: int, scope: int) -> Held:
    fleet = world.fleet
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
        claims=world.occupancy.claims_of(name),
    )


def _device(fleet: Fleet, row: int) -> Device:
    at = int(fleet.pool_of[row])
    pool = fleet.pools[at]
    local = row - int(fleet.start[at])
    block = int(np.searchsorted(pool.offsets, local, side="right")) - 1
    return pool.blocks[block].slice.spec.devices[local - int(pool.offsets[block])]


def _taken(world: Snapshot) -> Mask:
    return world.occupancy.held | world.occupancy.sharing


def problems(world: Snapshot) -> Sequence[str]:
    """Expressions that fail or cannot be read; each makes the pairs concerned incompatible."""
    exclusion = world.fleet.exclusion
    return [f"{problem.device}: {problem.message}" for problem in exclusion.problems] if exclusion else []
