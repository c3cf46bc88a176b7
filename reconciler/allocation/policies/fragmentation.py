"""`fgd`: the least growth of fragmentation, as in the paper (ATC'23). The base of `expected-fill`.

Whole and shared devices only: claims of partitions are ordered by `least-loss`, with the same demand. Of
several requests, the one that takes most decides.
"""

from collections import OrderedDict
from dataclasses import dataclass, field

import numpy as np
from msgspec import Struct

from kernels.distinct import distinct
from kernels.fragmentation import NEVER, Need, compile_demand, points
from kernels.types import Amounts, Codes, Mask, Rows
from reconciler.allocation.dra.candidates import Candidates
from reconciler.allocation.policies.compiled_demand import (
    CompiledDemand,
    compile_for,
    largest,
    need_of,
    taking,
)
from reconciler.allocation.policies.demand import Demand
from reconciler.allocation.policies.guard import guarded
from reconciler.allocation.policies.least_loss import LeastLoss
from reconciler.allocation.policies.node_states import NodeStates, doubled
from reconciler.allocation.policies.pod_room import PodRoom
from reconciler.allocation.policies.policy import LAST, Policy, Question, SetJudge
from reconciler.state.caches import Cache
from reconciler.state.devices.snapshot.snapshot import Snapshot, Topology, View

KEPT = 4
"""Demands whose tables are cached for one topology: the one in use, and those that it replaced"""
NEEDS = 1024
"""Needs whose points are remembered"""


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
        self.compiled: CompiledDemand = compile_for(demand, snapshot)
        self.nodes = NodeStates(self.compiled.model, snapshot)
        self._tables = compile_demand(self.compiled.typical())
        self._points: OrderedDict[Need, Points] = OrderedDict()
        self._states = self.nodes.states

    def follow(self, snapshot: Snapshot, pod: PodRoom | None) -> None:
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
        known = self._points.get(need)
        if known is None:
            known = Points(np.full(size, UNJUDGED, dtype=np.int64), np.full(size, -1, dtype=np.int32))
            self._points[need] = known
            if len(self._points) > NEEDS:
                self._points.popitem(last=False)
        while len(known.score) < size:
            known.score, known.device = doubled(known.score, UNJUDGED), doubled(known.device, -1)
        self._points.move_to_end(need)
        return known


_SCORES: Cache[Topology, OrderedDict[str, Scores]] = Cache(lambda _: OrderedDict())
"""The states follow one snapshot, so a fork has its own."""


@dataclass(frozen=True)
class Fgd:
    """Prefers the node, and the shared device, where fragmentation grows least; equal points by name."""

    demand: Demand
    name: str = "fgd"
    seed: int = 0
    partitions: Policy = field(init=False)
    """Orders claims of partitions"""

    def __post_init__(self) -> None:
        object.__setattr__(self, "partitions", guarded(LeastLoss(self.demand)))

    @property
    def digest(self) -> str:
        """See `Policy.digest`."""
        return self.demand.digest

    def nodes(self, question: Question, among: Mask) -> Amounts | None:
        """See `Policy.nodes`."""
        need = need_in(question)
        if need is None:
            return self.partitions.nodes(question, among)
        places = np.flatnonzero(among)
        found: Amounts = np.full(len(among), LAST, dtype=np.int64)
        scored = scores_of(self.demand, question).of_nodes(need, places)
        found[places] = np.where(scored == NEVER, LAST, -scored)
        return found

    def devices(self, question: Question, candidates: Candidates, view: View) -> Rows | None:
        """See `Policy.devices`."""
        return shared_device_first(self, question, candidates, view)

    def sets(self, question: Question, view: View) -> SetJudge | None:
        """See `Policy.sets`. Whole and shared devices are judged one by one."""
        return self.partitions.sets(question, view) if need_in(question) is None else None


def need_in(question: Question) -> Need | None:
    """What the claims and their pod need; None for claims of partitions."""
    snapshot = question.snapshot
    option = largest(question.parsed.slots, snapshot)
    if option is not None and not taking(option, snapshot).plain:
        return None
    return need_of(option, question.pod.cores if question.pod is not None else 0, snapshot)


def scores_of(demand: Demand, question: Question) -> Scores:
    """The scores at a snapshot."""
    snapshot = question.snapshot
    known = _SCORES.of(snapshot.topology)
    found = known.get(demand.digest)
    if found is None:
        found = known[demand.digest] = Scores(demand, snapshot)
        if len(known) > KEPT:
            known.popitem(last=False)
    found.follow(snapshot, question.pod)
    return found


def shared_device_first(policy: Fgd, question: Question, candidates: Candidates, view: View) -> Rows | None:
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
