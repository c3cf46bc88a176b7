"""Keys of devices for one request option, and the least key on each node. They follow the allocations."""

from collections.abc import Callable

import numpy as np

from kernels.types import Amounts, Rows
from reconciler.allocation.dra.availability import Available, available
from reconciler.allocation.dra.request_options import RequestOption
from reconciler.allocation.policies.policy import LAST
from reconciler.state.devices.occupancy.trail import Trail
from reconciler.state.devices.snapshot.snapshot import Snapshot

Judge = Callable[[RequestOption, Rows, Snapshot], Amounts]
"""(option, (n,) rows of the fleet, snapshot) -> (n,) keys of devices that are available, all below `LAST`"""

FEW_NODES = 32
"""Changed nodes up to which each is evaluated on its own"""


class DeviceKeys:
    """The D keys for one request option. Valid for one fleet."""

    def __init__(self, option: RequestOption, judge: Judge, snapshot: Snapshot) -> None:
        self._option = option
        self._judge = judge
        self._available = available(option, snapshot)
        self._trail: Trail = snapshot.occupancy.trail
        self._serial = snapshot.occupancy.serial
        fleet = snapshot.fleet
        self._nodes = fleet.codes["node"]
        rows = np.flatnonzero(self._available.concerned)
        rows = rows[np.argsort(self._nodes[rows], kind="stable")]
        self._spread = rows[: np.count_nonzero(self._nodes[rows] < 0)]
        self._local = rows[len(self._spread) :]
        count = len(fleet.vocabulary.nodes.values) + 1
        self._start = np.searchsorted(self._nodes[self._local], np.arange(count + 1))
        self._filled = np.flatnonzero(self._start[1:] > self._start[:-1])
        self.of_row: Amounts = np.full(fleet.size, LAST, dtype=np.int64)
        """(D,) `LAST` for devices that are not available"""
        self.of_node: Amounts = np.full(count, LAST, dtype=np.int64)
        """(N + 1,) the least key of the devices that belong to a node, by the fleet's code of the node"""
        self._evaluate(rows, snapshot)
        self._reduce_all()

    def reaches(self, snapshot: Snapshot) -> bool:
        """Whether `follow` can update the keys to a snapshot."""
        return self._trail is snapshot.occupancy.trail and self._serial <= snapshot.occupancy.serial

    def follow(self, snapshot: Snapshot) -> Available:
        """Update the keys to a snapshot; return what is available there. The cost depends on what changed."""
        self._available = available(self._option, snapshot)
        serial = snapshot.occupancy.serial
        if serial != self._serial:
            rows = self._trail.between(self._serial, serial)
            self._serial = serial
            rows = rows[self._available.concerned[rows]]
            if len(rows):
                self._evaluate(rows, snapshot)
                self._reduce(rows)
        return self._available

    def least_anywhere(self) -> int:
        """The least key of the devices that several nodes reach."""
        return int(self.of_row[self._spread].min(initial=LAST))

    def _evaluate(self, rows: Rows, snapshot: Snapshot) -> None:
        self.of_row[rows] = LAST
        rows = rows[self._available.mask[rows]]
        if len(rows):
            self.of_row[rows] = self._judge(self._option, rows, snapshot)

    def _reduce(self, rows: Rows) -> None:
        nodes = set(self._nodes[rows].tolist())
        if len(nodes) > FEW_NODES:
            self._reduce_all()
            return
        for node in nodes:
            if node >= 0:
                of_node = self._local[self._start[node] : self._start[node + 1]]
                self.of_node[node] = self.of_row[of_node].min(initial=LAST)

    def _reduce_all(self) -> None:
        if len(self._filled):
            self.of_node[self._filled] = np.minimum.reduceat(
                self.of_row[self._local], self._start[self._filled]
            )
