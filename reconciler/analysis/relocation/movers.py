"""Which pods may be moved, and the devices that they hold. Source: MOVE-1.

A pod may be moved if a controller replaces it on any node, if nobody else uses its claims, if its budgets and
its gang can spare one pod, and if all its devices are known.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import numpy as np
from msgspec import Struct

from kernels.types import Amounts, Codes, Rows
from reconciler.analysis.relocation.occupants import Occupant, Occupants
from reconciler.analysis.relocation.world import World
from reconciler.analysis.whatif.simulation import unallocated
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod, claims_of
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.pinning import unpinned
from reconciler.state.devices.fleet import Fleet
from reconciler.state.pods.placed import allocation_of


class Mover(Struct, frozen=True, eq=False):
    """A pod that may be moved."""

    pod: Pod
    """As its controller recreates it: without our pin to the node"""
    node: str
    claims: tuple[ResourceClaim, ...]
    """Its claims, without their allocations"""
    rows: Rows
    """(n,) the devices that it holds"""

    @property
    def key(self) -> ObjectKey:
        return self.pod.key


MayMove = Callable[[Occupant], bool]
"""What is asked of a pod besides MOVE-1"""


def anyone(_: Occupant) -> bool:
    """Nothing more."""
    return True


def movers_of(world: World, may_move: MayMove = anyone) -> tuple[Mover, ...]:
    """All pods that may be moved, by name."""
    occupants = Occupants(world.store, world.nodes, world.groups, world.budgets)
    rows = rows_of_claims(world)
    return tuple(_movers(world, occupants, rows, may_move))


def rows_of_claims(world: World) -> dict[ObjectKey, Rows]:
    """Allocated claim -> (n,) the devices that it holds."""
    fleet: Fleet = world.store.snapshot().fleet
    found: dict[ObjectKey, Rows] = {}
    for key in world.store.claims:
        allocation = allocation_of(world.store, key)
        if allocation is not None:
            rows = [
                row
                for result in allocation.devices.results
                if not result.admin_access
                for row in fleet.rows_of(result.id)
            ]
            found[key] = np.array(rows, dtype=np.intp)
    return found


def _movers(
    world: World, occupants: Occupants, rows: Mapping[ObjectKey, Rows], may_move: MayMove
) -> Iterator[Mover]:
    living = (pod for pod in world.store.pods.values() if not pod.finished)
    naming = Counter(claim for pod in living for claim in claims_of(pod))
    for key, occupant in sorted(occupants.pods.items()):
        if not occupant.claims or not _replaceable(occupant, occupants) or not may_move(occupant):
            continue
        mine, named = frozenset([key]), frozenset(claims_of(occupant.pod))
        if any(occupants.users[one] != mine or naming[one] > (one in named) for one in occupant.claims):
            continue
        devices = np.concatenate([rows[claim] for claim in occupant.claims])
        wanted = sum(_devices(world, claim) for claim in occupant.claims)
        if len(devices) == wanted and wanted:
            claims = tuple(unallocated(world.store.claims[claim]) for claim in occupant.claims)
            pod = unpinned(occupant.pod, occupant.node)
            yield Mover(pod, occupant.node, claims, devices)


def _devices(world: World, claim: ObjectKey) -> int:
    allocation = allocation_of(world.store, claim)
    assert allocation is not None
    return sum(not result.admin_access for result in allocation.devices.results)


def _replaceable(occupant: Occupant, occupants: Occupants) -> bool:
    """Whether the pod comes back, anywhere, and may go at all."""
    if not (occupant.movable and occupant.evictable):
        return False
    if occupants.together([occupant.pod.key]) != frozenset([occupant.pod.key]):
        return False
    return all(occupants.budgets.allowed[number] > 0 for number in occupant.budgets)


class FieldHolds(Struct, eq=False):
    """What is held of D devices and left of S counter sets, changed device by device."""

    fleet: Fleet
    left: Amounts
    """(S, C)"""
    holders: Codes
    """(D,) how many hold a device"""

    def copy(self) -> "FieldHolds":
        """The same holds, changed independently from now on."""
        return FieldHolds(self.fleet, self.left.copy(), self.holders.copy())

    def take(self, rows: Rows) -> None:
        """Hold devices."""
        self._change(rows, 1)

    def give_back(self, rows: Rows) -> None:
        """Release devices."""
        self._change(rows, -1)

    def _change(self, rows: Rows, sign: int) -> None:
        for row in rows.tolist():  # the devices of one pod
            before = int(self.holders[row])
            self.holders[row] = before + sign
            if not before or not before + sign:  # a shared device draws once
                for number, draw in zip(
                    self.fleet.sets[row].tolist(), self.fleet.draws[row].tolist(), strict=True
                ):
                    if number >= 0:
                        self.left[number] -= sign * self.fleet.table[draw]


def holds_of(world: World) -> FieldHolds:
    """What the claims of a world hold, and what is nominated for something else."""
    snapshot = world.store.snapshot()
    rows = [np.zeros(0, dtype=np.intp), *rows_of_claims(world).values()]
    holders = np.bincount(np.concatenate(rows), minlength=snapshot.fleet.size).astype(np.int32)
    found = FieldHolds(snapshot.fleet, snapshot.occupancy.left.copy(), holders)
    for one in world.store.nominations.besides(world.own):
        nominated = [row for device in one.devices for row in snapshot.fleet.rows_of(device)]
        found.take(np.array([row for row in nominated if not holders[row]], dtype=np.intp))
    return found


def size_of(mover: Mover, fleet: Fleet) -> int:
    """How much of their counter sets the devices of a pod draw, in thousandths of a set or whole device."""
    size = 0
    for row in mover.rows.tolist():
        number = int(fleet.sets[row, 0]) if fleet.sets.shape[1] else -1
        if number < 0:
            size += 1000
            continue
        total, draw = fleet.totals[number], fleet.table[fleet.draws[row, 0]]
        used = total > 0
        size += int((1000 * draw[used] // total[used]).max(initial=0))
    return size
