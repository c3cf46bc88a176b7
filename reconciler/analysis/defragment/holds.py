"""What is held of devices and left of counter sets, as columns that change device by device."""

import numpy as np
from msgspec import Struct

from kernels.types import Amounts, Codes, Rows
from reconciler.analysis.defragment.movers import Mover, rows_of_claims
from reconciler.analysis.making_room.world import World
from reconciler.state.devices.pools.fleet import Fleet


class Holds(Struct, eq=False):
    """What is held of D devices and left of S counter sets, changed device by device."""

    fleet: Fleet
    left: Amounts
    """(S, C)"""
    holders: Codes
    """(D,) how many hold a device"""

    def copy(self) -> "Holds":
        """The same holds, changed independently from now on."""
        return Holds(self.fleet, self.left.copy(), self.holders.copy())

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


def holds_of(world: World) -> Holds:
    """What the claims of a world hold, and what is nominated for something else."""
    snapshot = world.store.snapshot()
    rows = [np.zeros(0, dtype=np.intp), *rows_of_claims(world).values()]
    holders = np.bincount(np.concatenate(rows), minlength=snapshot.fleet.size).astype(np.int32)
    found = Holds(snapshot.fleet, snapshot.occupancy.left.copy(), holders)
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
