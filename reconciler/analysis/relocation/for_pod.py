"""Who has to leave a node because it has too little CPU, memory or room for pods. Source: MAKE-6."""

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import chain

import numpy as np

from kernels.types import Mask
from reconciler.allocation.placement.pod_tests import volumes_of
from reconciler.analysis.relocation.bounds import Bounds, Holds, lower_bound
from reconciler.analysis.relocation.leaving import Attempts, OutOfTries
from reconciler.analysis.relocation.occupants import Pods
from reconciler.analysis.relocation.victim_sets import NONE, Cost, Fits, Found, Pricing, Subsets
from reconciler.analysis.relocation.wanted import WantedPod
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.errors import Rejected
from reconciler.state.devices.snapshot import Snapshot
from reconciler.state.nodes.room import PODS, demand
from reconciler.state.nodes.table import Nodes

JUDGED = ("cpu", "memory", "ephemeral-storage", PODS)
"""Resources that every node reports, whatever devices stand for others"""


class NodeRoom:
    """The room that a pod wants on nodes."""

    def __init__(self, pod: Pod, nodes: Nodes) -> None:
        self._nodes = nodes
        self._wanted = {name: amount for name, amount in demand(pod).items() if name in JUDGED}
        self._short = nodes.room.short_of(
            self._wanted, frozenset(), but=(pod.key, *nodes.nominated.charges_of_pod(pod))
        )
        self._own = nodes.room.charged(pod.key)

    def needed(self, node: str, leaving: Sequence[ObjectKey]) -> tuple[Pods, list[Pods]] | None:
        """Pods that have to leave a node, and sets of each of which one has to leave, among those that can.

        None if the pod does not fit without all of them.
        """
        row = self._nodes.row_of(node)
        always: set[ObjectKey] = set()
        some: list[Pods] = []
        for name, short in self._short.items():
            if row is None or not short[row]:
                continue
            taken = {key: self._taken(key, name) for key in leaving}
            own = self._own.amounts.get(name, 0) if self._own is not None and self._own.node == node else 0
            spare = self._nodes.room.left(node, name) + own + sum(taken.values()) - self._wanted[name]
            if spare < 0:
                return None
            always |= {key for key, amount in taken.items() if amount > spare}
            some.append(frozenset(key for key, amount in taken.items() if amount))
        return frozenset(always), some

    def _taken(self, key: ObjectKey, name: str) -> int:
        charge = self._nodes.room.charged(key)
        return 0 if charge is None else charge.amounts.get(name, 0)


def with_room(needed: Sequence[Pods], always: Pods, some: Sequence[Pods]) -> list[Pods]:
    """Sets of which one leaves, extended by pods that leave in any case, and by one of each of some sets."""
    found = [one | always for one in needed]
    for among in some:
        found = [
            more
            for one in found
            for more in ([one] if one & among else [one | {key} for key in sorted(among)])
        ]
    return found


CHAINS = 14
"""Most pods that may move for which pods of other nodes are moved, too, to make room for those that leave"""
_Entry = tuple[Cost, int, bool, Pods]
"""Bound, node, whether the bound is that of a set, and that set"""


def search_nodes(attempts: Attempts, holds: Holds, pricing: Pricing, accepts: Fits | None) -> Found:
    """The cheapest set without which the wanted pod or claim fits on some node."""
    return _NodeSearch(attempts, holds, pricing, accepts).run()


class _NodeSearch:
    """A best-first search: a node is looked at when no other node can be cheaper."""

    def __init__(self, attempts: Attempts, holds: Holds, pricing: Pricing, accepts: Fits | None) -> None:
        assert isinstance(attempts.wanted, WantedPod)
        self._attempts, self._holds, self._pricing, self._accepts = attempts, holds, pricing, accepts
        self._wanted = attempts.wanted
        self._occupants = holds.occupants
        self._snapshot: Snapshot = attempts.trial.snapshot
        self._order = self._snapshot.topology.order
        self._bounds = Bounds(self._wanted.claims, self._snapshot, holds)
        self._costs = self._bounds.of_nodes()
        self._needed: dict[int, list[Pods]] = {}
        self._best: tuple[Cost, Pods] | None = None
        self._on = self._by_node()
        pod = self._wanted.pod
        bound = pod is None or bool(pod.spec.node_name)  # the room of its node is its own
        self._room = None if pod is None or bound else NodeRoom(pod, attempts.world.nodes)

    def _by_node(self) -> dict[str, list[ObjectKey]]:
        """Node -> the pods on it that can leave."""
        found: dict[str, list[ObjectKey]] = {}
        pods = self._occupants.pods
        for key in self._holds.eligible:
            found.setdefault(pods[key].node, []).append(key)
        return found

    def run(self) -> Found:
        """Look at nodes until none can be cheaper than the best set, or the tries are used up."""
        places = np.flatnonzero(self._suiting() & np.isfinite(self._costs[1]))
        heap: list[_Entry] = [(lower_bound(self._costs, at), at, False, NONE) for at in places.tolist()]
        heapify(heap)
        while heap:
            entry = heappop(heap)
            if self._best is not None and entry[0] >= self._best[0]:
                break
            try:
                self._look(entry, heap)
            except OutOfTries:
                return Found(self._best[1] if self._best else None, proved=False, bound=entry[0])
        if self._best is None:
            return Found(None, proved=not self._attempts.unsure)
        return Found(self._best[1], proved=not self._attempts.unsure, bound=self._best[0])

    def _suiting(self) -> Mask:
        """(N,) nodes that suit the pod whatever other pods do."""
        every = np.ones(len(self._order), dtype=np.bool_)
        placement, pod = self._attempts.world.placement(), self._wanted.pod
        if pod is None:
            nodes = placement.for_claim(self._snapshot).nodes
            return every if nodes is None else nodes.mask
        try:
            if pod.spec.node_name:
                return placement.only(pod.spec.node_name, self._snapshot).mask
            held = tuple(claim for claim in self._wanted.held if not self._can_be_free(claim.key))
            return placement.whatever_runs(pod, held, self._snapshot).mask
        except Rejected:
            return ~every

    def _can_be_free(self, claim: ObjectKey) -> bool:
        """Whether pods that can leave hold a claim."""
        users = self._occupants.users.get(claim, NONE)
        return bool(users) and users <= self._holds.eligible

    def _look(self, entry: _Entry, heap: list[_Entry]) -> None:
        """Refine the bound of a node; or try the set that it stands for, then all others of the node."""
        _, at, refined, pods = entry
        if not refined:
            needed = [self._occupants.together(one) for one in self._all_needed(at)]
            self._needed[at] = [one for one in dict.fromkeys(needed) if one <= self._holds.eligible]
            for one in self._needed[at]:
                heappush(heap, (self._pricing.least(one), at, True, one))
            return
        if at not in self._needed:
            return  # all sets of this node were tried
        if self._fits(at, pods) and (self._accepts is None or self._accepts(pods)):
            cost = self._pricing.of(pods)
            if self._best is None or cost < self._best[0]:
                self._best = cost, pods
            return
        self._search_node(at)

    def _all_needed(self, at: int) -> list[Pods]:
        """Sets of pods of which one has to leave a node: because of devices, and because of its room."""
        needed, name = self._bounds.needed(at), self._order[at]
        if self._room is None:
            return needed
        room = self._room.needed(name, self._on.get(name, ()))
        return [] if room is None else with_room(needed, *room)

    def _fits(self, at: int, pods: Pods) -> bool:
        return self._attempts.fits(pods, self._order[at])

    def _search_node(self, at: int) -> None:
        """Find the cheapest set of one node, if it is cheaper than the best one."""
        subsets = Subsets(
            self._occupants,
            self._holds.eligible,
            self._pricing,
            lambda pods: self._fits(at, pods),
            lambda pods: self._attempts.could_fit(pods, self._order[at]),
            self._accepts,
        )
        subsets.best = self._best
        try:
            subsets.search(self._concerned(at), self._needed.pop(at))
        finally:
            self._best = subsets.best

    def _concerned(self, at: int) -> Pods:
        """The pods that can leave and may make a difference on a node."""
        name, everyone = self._order[at], self._holds.eligible
        if self._accepts is not None and len(everyone) <= CHAINS:
            return everyone  # who leaves may need the place of another
        if self._wanted.pod is not None and self._depends_on_others():
            return everyone
        fleet = self._snapshot.fleet
        pools = [fleet.index[one.pool] for one in self._snapshot.topology.view(name).pools]
        rows = np.flatnonzero(np.isin(fleet.pool_of, pools))
        found = self._holds.at(rows.tolist())
        held = chain(self._wanted.held, *(held for _, held, _ in self._wanted.beside))
        pinning = (self._occupants.users.get(claim.key, NONE) for claim in held)
        return found.union(self._on.get(name, ()), *pinning, self._rivals()) & self._holds.eligible

    def _rivals(self) -> Iterator[ObjectKey]:
        """The pods, on any node, that use a volume of the pod that only one pod at a time may use."""
        pod, volumes = self._wanted.pod, self._attempts.world.nodes.volumes
        if pod is None or not pod.spec.volumes or not volumes.considered:
            return
        for claim in volumes_of(pod, volumes.objects).exclusive:
            for rival, _ in volumes.uses.users(claim.key, but=(pod.key,)):
                yield rival

    def _depends_on_others(self) -> bool:
        """Whether pods on other nodes decide where the pod can run: by affinity or spread."""
        pod = self._wanted.pod
        assert pod is not None
        affinity = pod.spec.affinity
        return bool(
            (affinity is not None and (affinity.pod_affinity or affinity.pod_anti_affinity))
            or pod.spec.topology_spread_constraints
            or self._attempts.world.nodes.residents.against(pod)
        )
