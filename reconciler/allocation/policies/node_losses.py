"""What a set of devices of one node costs: how much of the demand has a place there no longer."""

from collections.abc import Sequence

import numpy as np

from kernels.types import Amounts, Codes
from reconciler.allocation.dra.availability import available
from reconciler.allocation.dra.capacity import Consumption
from reconciler.allocation.dra.state import State
from reconciler.allocation.dra.static_match import match_in_fleet
from reconciler.allocation.policies.room_left import left_of_sets
from reconciler.allocation.policies.set_losses import FULLNESS
from reconciler.allocation.policies.wanted import Wanted, sizes
from reconciler.state.devices.snapshot.snapshot import Snapshot, View


class NodeLosses:
    """Keys of sets: the value that the node loses, then what is left of the counter sets they draw from.

    The value of a node is the sum over S requests of weight x floor(devices on which it fits / devices that
    it asks for), or the size of all free devices without a demand. Exact for any set, while keys of single
    devices cannot be added: two devices may close the same place.
    """

    def __init__(self, wanted: Sequence[Wanted] | None, view: View, snapshot: Snapshot) -> None:
        """`wanted` are the requests of the demand, at least those that suit a device of the node.

        None without a demand: devices count by their size.
        """
        self._wanted, self._view, self._snapshot = wanted or (), view, snapshot
        rows = view.rows
        if wanted is not None:
            suits = [available(one.option, snapshot).mask[rows] for one in wanted]
            self._suits = np.array(suits, dtype=np.int64).reshape(len(wanted), len(rows))
            self._count = np.array([one.count for one in wanted], dtype=np.int64)
            self._weight = np.array([one.weight for one in wanted], dtype=np.int64)
        else:
            self._suits = (view.of(snapshot.occupancy.free) * view.of(sizes(snapshot.fleet)))[None]
            self._count = self._weight = np.ones(1, dtype=np.int64)
        self._now = self._value(self._suits.sum(axis=1)[None])[0]
        self._left = np.minimum(left_of_sets(rows, snapshot), FULLNESS - 1)
        _, classes = np.unique(self._suits, axis=1, return_inverse=True)
        self.classes: Codes = classes.reshape(-1).astype(np.int32)
        """(n,) see `SetJudge.classes`"""

    def keys(self, states: Sequence[State]) -> Amounts:
        """See `SetJudge.keys`."""
        still_open = np.array([state.fit & ~state.taken for state in states], dtype=np.int64)
        counts = still_open @ self._suits.T
        for at, state in enumerate(states):
            for device, consumed in state.shares.items():
                counts[at] -= self._suits[:, device] * self._used_up(device, consumed)
        left = [sum(int(self._left[choice.at]) for choice in state.chosen) for state in states]
        lost: Amounts = (self._now - self._value(counts)) * FULLNESS
        return lost + np.minimum(np.array(left, dtype=np.int64), FULLNESS - 1)

    def _value(self, counts: Amounts) -> Amounts:
        """(K,) the value of nodes with so many devices (K, S) for each request."""
        found: Amounts = (counts // self._count * self._weight).sum(axis=1)
        return found

    def _used_up(self, device: int, consumed: object) -> Amounts:
        """(S,) 1 for requests that do not fit a shared device any more; 0 without a demand."""
        found = np.zeros(len(self._count), dtype=np.int64)
        shape = int(self._snapshot.fleet.codes["shape"][self._view.row(device)])
        for at, one in enumerate(self._wanted):
            theirs = match_in_fleet(one.option, self._snapshot).consumption.get(shape)
            if isinstance(theirs, Consumption) and isinstance(consumed, dict):
                found[at] = not theirs.fits(consumed)
        return found
