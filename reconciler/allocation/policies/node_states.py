"""The state of each node as numbers: free CPU, model, and what is left of each device. Follows the holds."""

from typing import Any, TypeVar

import numpy as np

from kernels.fragmentation import Machines
from kernels.types import Amounts, Codes, Mask, Rows
from reconciler.allocation.policies.compiled_demand import device_rows
from reconciler.allocation.policies.pod_room import UNKNOWN_CORES, PodRoom
from reconciler.allocation.policies.room_left import left_of
from reconciler.state.devices.snapshot.snapshot import Snapshot

Column = TypeVar("Column", bound=np.ndarray[Any, Any])

KEPT = 2**16
"""Distinct states that are numbered. Then all are numbered anew, and what was derived from them is lost."""


class States:
    """Distinct states of machines, numbered from 0. Amounts of devices are in the order of the devices."""

    def __init__(self, devices: int) -> None:
        self.cores: Amounts = np.zeros(64, dtype=np.int64)
        self.model: Codes = np.zeros(64, dtype=np.int32)
        self.free: Amounts = np.zeros((64, devices), dtype=np.int64)
        self._number: dict[tuple[int, int, bytes], int] = {}

    def __len__(self) -> int:
        return len(self._number)

    def number(self, cores: int, model: int, free: Amounts) -> int:
        """The number of a state, a new one if it is new. free (G,)"""
        key = cores, model, free.tobytes()
        found = self._number.get(key)
        if found is None:
            found = self._number[key] = len(self._number)
            if found == len(self.cores):
                self.cores, self.model = doubled(self.cores), doubled(self.model)
                self.free = doubled(self.free)
            self.cores[found], self.model[found], self.free[found] = cores, model, free
        return found

    def machines(self, numbers: Rows) -> Machines:
        """States as machines."""
        return Machines(self.cores[numbers], self.model[numbers], self.free[numbers])


def doubled(column: Column, fill: int = 0) -> Column:
    """The column with room for as many more rows."""
    return np.concatenate([column, np.full_like(column, fill)])  # type: ignore[return-value]


class NodeStates:
    """The number of the state of each of N nodes. Valid for one topology and one set of models."""

    def __init__(self, model: Codes, snapshot: Snapshot) -> None:
        self.rows = device_rows(snapshot)
        """(N, G)"""
        self._model = model
        self._place_of = snapshot.topology.place_of
        self._start_anew()

    def _start_anew(self) -> None:
        self.states = States(self.rows.shape[1])
        self.of_node: Rows = np.zeros(len(self.rows), dtype=np.intp)
        self._cores: Amounts = np.full(len(self.rows), -1, dtype=np.int64)
        self._free: Amounts = np.zeros(self.rows.shape, dtype=np.int64)
        self._serial = -1
        self._trail: object = None

    def follow(self, snapshot: Snapshot, pod: PodRoom | None) -> None:
        """Update the states to a snapshot. The cost depends on the nodes that changed."""
        if len(self.states) > KEPT + len(self.rows):
            self._start_anew()
        cores = np.full(len(self.rows), UNKNOWN_CORES, dtype=np.int64) if pod is None else pod.free
        changed: Mask = cores != self._cores
        self._cores = cores.copy()
        occupancy = snapshot.occupancy
        if occupancy.trail is not self._trail or occupancy.serial < self._serial:
            self._trail = occupancy.trail
            changed[:] = True
        elif occupancy.serial > self._serial:
            rows = occupancy.trail.between(self._serial, occupancy.serial)
            changed[self._place_of[snapshot.fleet.codes["node"][rows]]] = True
        self._serial = occupancy.serial
        places = np.flatnonzero(changed)
        if len(places):
            self._read(places, snapshot)

    def _read(self, places: Rows, snapshot: Snapshot) -> None:
        rows = self.rows[places]
        present = rows >= 0
        free = np.zeros(rows.shape, dtype=np.int64)
        flat = rows[present]
        free[present] = np.where(snapshot.occupancy.free[flat], left_of((), flat, snapshot), 0)
        self._free[places] = free
        for place, of_place in zip(places.tolist(), free, strict=True):
            self.of_node[place] = self.states.number(
                int(self._cores[place]), int(self._model[place]), of_place
            )
