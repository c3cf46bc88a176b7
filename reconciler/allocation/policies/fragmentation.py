"""`fgd`: the least growth of fragmentation, as in the paper (ATC'23). The base of `expected-fill`.

Whole and shared devices only: claims of partitions are ordered by `least-loss`, with the same demand. Of
several requests, the one that takes most decides.
"""

from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from msgspec import Struct

from kernels.fragmentation import NEVER, Machines, Need, compile_demand, points
from kernels.groups import distinct
from kernels.types import Amounts, Codes, Mask, Rows
from reconciler.allocation.dra.candidates import Candidates
from reconciler.allocation.policies import compiled_demand
from reconciler.allocation.policies import policy as base
from reconciler.allocation.policies.demand import Demand
from reconciler.allocation.policies.least_loss import LeastLoss
from reconciler.state.caches import Cache, Recent
from reconciler.state.devices.snapshot import Snapshot, Topology, View

Column = TypeVar("Column", bound=np.ndarray[Any, Any])

KEPT_STATES = 2**16
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
        self.rows = compiled_demand.device_rows(snapshot)
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

    def follow(self, snapshot: Snapshot, pod: base.PodRoom | None) -> None:
        """Update the states to a snapshot. The cost depends on the nodes that changed."""
        if len(self.states) > KEPT_STATES + len(self.rows):
            self._start_anew()
        cores = np.full(len(self.rows), base.UNKNOWN_CORES, dtype=np.int64) if pod is None else pod.free
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
        free[present] = np.where(
            snapshot.occupancy.free[flat], compiled_demand.left_of((), flat, snapshot), 0
        )
        self._free[places] = free
        for place, of_place in zip(places.tolist(), free, strict=True):
            self.of_node[place] = self.states.number(
                int(self._cores[place]), int(self._model[place]), of_place
            )


KEPT = 2
"""Demands whose tables are cached for one topology, at least: the one in use, and those that it replaced"""
NEEDS = 512
"""Needs whose points are remembered, at least"""


class Points(Struct, eq=False):
    """The points of states for one need, by the number of the state."""

    score: Amounts
    """`UNJUDGED` for a state that was not judged yet"""
    device: Codes
    """The device that a shared need takes part of; -1 for other needs"""


UNJUDGED = np.iinfo(np.int64).max


class Scores:
    """Remembers the points of every state that was judged. Valid for one topology and one demand."""

    def __init__(self, demand: Demand, snapshot: Snapshot) -> None:
        self.compiled: compiled_demand.CompiledDemand = compiled_demand.compile_for(demand, snapshot)
        self.nodes = NodeStates(self.compiled.model, snapshot)
        self._tables = compile_demand(self.compiled.typical())
        self._points: Recent[Need, Points] = Recent(NEEDS)
        self._states = self.nodes.states

    def follow(self, snapshot: Snapshot, pod: base.PodRoom | None) -> None:
        """Update the states of the nodes."""
        self.nodes.follow(snapshot, pod)
        if self.nodes.states is not self._states:
            self._states = self.nodes.states
            self._points.clear()

    def of_nodes(self, need: Need, places: Rows) -> Amounts:
        """(n,) points of some nodes; `NEVER` where the need does not fit."""
        known = self._of(need)
        numbers = self.nodes.of_node[places]
        found = known.score[numbers]
        fresh = found == UNJUDGED
        if fresh.any():
            states = distinct(numbers[fresh])
            known.score[states], known.device[states] = points(
                self._tables, need, self.nodes.states.machines(states)
            )
            found = known.score[numbers]
        return found

    def devices(self, need: Need, places: Rows) -> Codes:
        """(n,) the device of each node that a shared need takes part of; -1 for other needs."""
        self.of_nodes(need, places)
        return self._of(need).device[self.nodes.of_node[places]]

    def _of(self, need: Need) -> Points:
        size = len(self.nodes.states.cores)
        known = self._points.of(
            need, lambda: Points(np.full(size, UNJUDGED), np.full(size, -1, dtype=np.int32))
        )
        while len(known.score) < size:
            known.score, known.device = doubled(known.score, UNJUDGED), doubled(known.device, -1)
        return known


_SCORES: Cache[Topology, Recent[str, Scores]] = Cache(lambda _: Recent(KEPT))
"""The states follow one snapshot, so a fork has its own."""


class Fgd(Struct, frozen=True, dict=True):
    """Prefers the node, and the shared device, where fragmentation grows least; equal points by name."""

    demand: Demand
    seed: int = 0
    name: str = "fgd"

    @cached_property
    def partitions(self) -> base.Policy:
        """Orders claims of partitions."""
        return LeastLoss(self.demand, guarded=True)

    @property
    def digest(self) -> str:
        """See `Policy.digest`."""
        return self.demand.digest

    def nodes(self, question: base.PolicyQuestion, among: Mask) -> Amounts | None:
        """See `Policy.nodes`."""
        need = need_in(question)
        if need is None:
            return self.partitions.nodes(question, among)
        return self._keys(need, question, among)

    def _keys(self, need: Need, question: base.PolicyQuestion, among: Mask) -> Amounts:
        places = np.flatnonzero(among)
        found: Amounts = np.full(len(among), base.LAST, dtype=np.int64)
        scored = scores_of(self.demand, question).of_nodes(need, places)
        found[places] = np.where(scored == NEVER, base.LAST, -scored)
        return found

    def devices(self, question: base.PolicyQuestion, candidates: Candidates, view: View) -> Rows | None:
        """See `Policy.devices`."""
        return shared_device_first(self, question, candidates, view)

    def sets(self, question: base.PolicyQuestion, view: View) -> base.SetJudge | None:
        """See `Policy.sets`. Whole and shared devices are judged one by one."""
        return self.partitions.sets(question, view) if need_in(question) is None else None


def need_in(question: base.PolicyQuestion) -> Need | None:
    """What the claims and their pod need; None for claims of partitions."""
    snapshot = question.snapshot
    option = compiled_demand.largest(question.parsed.slots, snapshot)
    if option is not None and not compiled_demand.taking(option, snapshot).plain:
        return None
    return compiled_demand.need_of(option, question.pod.cores if question.pod is not None else 0, snapshot)


def scores_of(demand: Demand, question: base.PolicyQuestion) -> Scores:
    """The scores at a snapshot."""
    snapshot = question.snapshot
    found = _SCORES.of(snapshot.topology).of(demand.digest, lambda: Scores(demand, snapshot))
    found.follow(snapshot, question.pod)
    return found


def shared_device_first(
    policy: Fgd, question: base.PolicyQuestion, candidates: Candidates, view: View
) -> Rows | None:
    """(n,) positions with the preferred shared device first; None if the order does not matter."""
    need, snapshot = need_in(question), question.snapshot
    if need is None:
        return policy.partitions.devices(question, candidates, view)
    scores = scores_of(policy.demand, question)
    code = snapshot.fleet.vocabulary.nodes.find(view.node.name)
    place = int(snapshot.topology.place_of[code]) if code >= 0 else -1
    device = int(scores.devices(need, np.array([place]))[0]) if place >= 0 else -1
    if device < 0:
        return None
    first = np.flatnonzero(view.rows == scores.nodes.rows[place, device])
    return np.concatenate([first, np.delete(np.arange(len(view.rows)), first)])
