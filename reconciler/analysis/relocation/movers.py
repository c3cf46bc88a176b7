"""Which pods may be moved, and what they hold, as columns that change device by device. Source: MOVE-1.

A pod may be moved if a controller replaces it on any node, if nobody else uses its claims, if its budgets and
its gang can spare one pod, and if all its devices are known.
"""

from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np
from msgspec import Struct

from kernels.types import Amounts, Codes, Rows
from reconciler.analysis.relocation.occupants import Occupant, Occupants
from reconciler.analysis.world import World, unallocated
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


def movers_of(world: World, may_move: MayMove = anyone) -> tuple[Mover, ...]:
    """All pods that may be moved, by name."""
    return tuple(_movers(world, may_move))


def _movers(world: World, may_move: MayMove) -> Iterator[Mover]:
    occupants, store = Occupants(world), world.store
    living = (pod for pod in store.pods.values() if not pod.finished)
    naming = Counter(claim for pod in living for claim in claims_of(pod))
    rows_of = _rows_of_claims(world)
    for key, one in sorted(occupants.pods.items()):
        if not one.claims or not _replaceable(one, occupants) or not may_move(one):
            continue
        mine, named = frozenset([key]), frozenset(claims_of(one.pod))
        if any(occupants.users[claim] != mine or naming[claim] > (claim in named) for claim in one.claims):
            continue
        rows = np.concatenate([rows_of[claim] for claim in one.claims])
        results = [
            result
            for claim in one.claims
            for result in occupants.allocations[claim].devices.results
            if not result.admin_access
        ]
        if len(rows) == len(results) and results:
            claims = tuple(unallocated(store.claims[claim]) for claim in one.claims)
            yield Mover(unpinned(one.pod, one.node), one.node, claims, rows)


def _replaceable(one: Occupant, occupants: Occupants) -> bool:
    """Whether the pod comes back, anywhere, and may go at all."""
    alone = occupants.together([one.pod.key]) == frozenset([one.pod.key])
    return one.movable and alone and all(occupants.budgets.allowed[number] > 0 for number in one.budgets)


def _rows_of_claims(world: World) -> dict[ObjectKey, Rows]:
    """Allocated claim -> (n,) the devices that it holds."""
    fleet: Fleet = world.store.snapshot().fleet
    found: dict[ObjectKey, Rows] = {}
    for key in world.store.claims:
        allocation = allocation_of(world.store, key)
        if allocation is not None:
            ids = [result.id for result in allocation.devices.results if not result.admin_access]
            found[key] = np.array([row for one in ids for row in fleet.rows_of(one)], dtype=np.intp)
    return found


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


def holds_of(world: World) -> FieldHolds:
    """What the claims of a world hold, and what is nominated for something else."""
    snapshot = world.store.snapshot()
    rows = [np.zeros(0, dtype=np.intp), *_rows_of_claims(world).values()]
    holders = np.bincount(np.concatenate(rows), minlength=snapshot.fleet.size).astype(np.int32)
    found = FieldHolds(snapshot.fleet, snapshot.occupancy.left.copy(), holders)
    for one in world.store.nominations.besides(world.own):
        nominated = [row for device in one.devices for row in snapshot.fleet.rows_of(device)]
        found.take(np.array([row for row in nominated if not holders[row]], dtype=np.intp))
    return found
