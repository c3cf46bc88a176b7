"""The cheapest set of pods without which something fits. Source: MAKE-6, MAKE-7.

A pod or a claim needs one node: a node is looked at when no other can be cheaper, and its sets are tried or
excluded. For a gang the cheapest nodes of each domain are emptied; only few pods are searched completely.
"""

from collections.abc import Callable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import chain

import numpy as np

from kernels.bounds import whole
from kernels.types import Amounts, Mask
from reconciler.allocation.gangs.domains import Tiers
from reconciler.allocation.placement.placing import Placement
from reconciler.allocation.placement.pod_tests import volumes_of
from reconciler.analysis.relocation.bounds import Bounds, Holds, lower_bound
from reconciler.analysis.relocation.leaving import Attempts, OutOfTries
from reconciler.analysis.relocation.occupants import Pods
from reconciler.analysis.relocation.victim_sets import NONE, NOTHING, Cost, Found, Pricing, Subsets
from reconciler.analysis.world import Place, WantedGang, WantedPod
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.errors import Rejected
from reconciler.state.nodes.room import PODS, demand
from reconciler.state.nodes.table import Nodes
from reconciler.state.pods.terms import minds_others

CHAINS = 14
"""Most pods that may move for which pods of other nodes are moved, too, to make room for those that leave"""
COMPLETE = 14
"""Most pods that can leave for which all sets are searched for a gang"""
COPIES = 16
"""Most members that are expected on one node"""
DOMAINS = 20
"""Most domains that are tried for a gang"""
WIDER = 4
"""How often more nodes than needed are tried: constraints may exclude some"""
JUDGED = ("cpu", "memory", "ephemeral-storage", PODS)
"""Resources that every node reports, whatever devices stand for others"""


def cheapest_set(
    attempts: Attempts, holds: Holds, pricing: Pricing, accepts: Callable[[Pods], bool] | None
) -> Found:
    """The cheapest set without which what is wanted fits. `accepts` is a further test of sets."""
    kind = _GangSearch if isinstance(attempts.wanted, WantedGang) else _PodSearch
    return kind(attempts, holds, pricing, accepts).run()


class _Search:
    """What both have in common."""

    def __init__(
        self,
        attempts: Attempts,
        holds: Holds,
        pricing: Pricing,
        accepts: Callable[[Pods], bool] | None,
    ) -> None:
        self._attempts, self._holds, self._pricing, self._accepts = attempts, holds, pricing, accepts
        self._occupants, self._nodes = holds.occupants, attempts.trial.nodes
        self._snapshot = attempts.trial.snapshot
        self._order = self._snapshot.topology.order
        self._sets = Subsets(
            holds.occupants, holds.eligible, pricing, attempts.fits, attempts.could_fit, accepts
        )
        self._bound: Cost = NOTHING
        """No set costs less than this, as far as it was searched"""

    def run(self) -> Found:
        """Search until nothing can be cheaper than the best set, or the tries are used up."""
        try:
            complete = self._explore()
        except OutOfTries:
            complete = False
        proved, best = complete and not self._attempts.unsure, self._sets.best
        if best is None:
            return Found(None, proved)
        return Found(best[1], proved, best[0] if complete else self._bound)

    def _explore(self) -> bool:
        """Try sets. Returns whether all others are excluded."""
        raise NotImplementedError


_Entry = tuple[Cost, int, bool, Pods]
"""Bound, node, whether the bound is that of a set, and that set"""


class _PodSearch(_Search):
    """A best-first search over nodes."""

    def _explore(self) -> bool:
        assert isinstance(self._attempts.wanted, WantedPod)
        self._wanted = wanted = self._attempts.wanted
        self._bounds = Bounds(wanted.claims, self._snapshot, self._holds)
        self._needed: dict[int, list[Pods]] = {}
        self._on: dict[str, list[ObjectKey]] = {}
        for key in self._holds.eligible:
            self._on.setdefault(self._occupants.pods[key].node, []).append(key)
        bound = wanted.pod is None or bool(wanted.pod.spec.node_name)  # the room of its node is its own
        self._room = None if wanted.pod is None or bound else _NodeRoom(wanted.pod, self._nodes)
        costs = self._bounds.of_nodes()
        places = np.flatnonzero(self._suiting() & np.isfinite(costs[1]))
        heap: list[_Entry] = [(lower_bound(costs, at), at, False, NONE) for at in places.tolist()]
        heapify(heap)
        while heap:
            entry = heappop(heap)
            if self._sets.best is not None and entry[0] >= self._sets.best[0]:
                break
            self._bound = entry[0]
            self._look(entry, heap)
        return True

    def _suiting(self) -> Mask:
        """(N,) nodes that suit the pod whatever other pods do."""
        every = np.ones(len(self._order), dtype=np.bool_)
        trial, pod = self._attempts.trial, self._wanted.pod
        placement = Placement(trial.nodes, supposed=trial.supposed)
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
            needed = map(self._occupants.together, self._all_needed(at))
            self._needed[at] = [one for one in dict.fromkeys(needed) if one <= self._holds.eligible]
            for one in self._needed[at]:
                heappush(heap, (self._pricing.least(one), at, True, one))
        elif at in self._needed and not self._sets.consider(pods, self._order[at]):
            self._sets.search(self._concerned(at), self._order[at], self._needed.pop(at))

    def _all_needed(self, at: int) -> list[Pods]:
        """Sets of pods of which one has to leave a node: because of devices, and because of its room."""
        found, name = self._bounds.needed(at), self._order[at]
        room = (NONE, []) if self._room is None else self._room.needed(name, self._on.get(name, ()))
        if room is None:
            return []
        found = [one | room[0] for one in found]
        for among in room[1]:
            found = [
                more
                for one in found
                for more in ([one] if one & among else [one | {key} for key in sorted(among)])
            ]
        return found

    def _concerned(self, at: int) -> Pods:
        """The pods that can leave and may make a difference on a node."""
        name, everyone = self._order[at], self._holds.eligible
        if self._accepts is not None and len(everyone) <= CHAINS:
            return everyone  # who leaves may need the place of another
        pod = self._wanted.pod
        if pod is not None and (minds_others(pod) or self._nodes.residents.against(pod)):
            return everyone  # pods on other nodes decide where it can run
        fleet = self._snapshot.fleet
        pools = [fleet.index[one.pool] for one in self._snapshot.topology.view(name).pools]
        found = self._holds.at(np.flatnonzero(np.isin(fleet.pool_of, pools)).tolist())
        held = chain(self._wanted.held, *(held for _, held, _ in self._wanted.beside))
        pinning = (self._occupants.users.get(claim.key, NONE) for claim in held)
        return found.union(self._on.get(name, ()), *pinning, self._rivals()) & everyone

    def _rivals(self) -> Iterator[ObjectKey]:
        """The pods, on any node, that use a volume of the pod that only one pod at a time may use."""
        pod, volumes = self._wanted.pod, self._nodes.volumes
        if pod is None or not pod.spec.volumes or not volumes.considered:
            return
        for claim in volumes_of(pod, volumes.objects).exclusive:
            for rival, _ in volumes.uses.users(claim.key, but=(pod.key,)):
                yield rival


class _NodeRoom:
    """Who has to leave a node because it has too little CPU, memory or room for pods. Source: MAKE-6."""

    def __init__(self, pod: Pod, nodes: Nodes) -> None:
        self._room, self._row_of = nodes.room, nodes.row_of
        self._wanted = {name: amount for name, amount in demand(pod).items() if name in JUDGED}
        self._short = nodes.room.short_of(
            self._wanted, frozenset(), but=(pod.key, *nodes.nominated.charges_of_pod(pod))
        )
        self._pod = pod.key

    def needed(self, node: str, leaving: Sequence[ObjectKey]) -> tuple[Pods, list[Pods]] | None:
        """Pods that have to leave a node, and sets of each of which one has to leave, among those that can.

        None if the pod does not fit without all of them.
        """
        row = self._row_of(node)
        always: set[ObjectKey] = set()
        some: list[Pods] = []
        for name, short in self._short.items():
            if row is None or not short[row]:
                continue
            taken = {key: self._taken(key, node, name) for key in leaving}
            own = self._taken(self._pod, node, name)
            spare = self._room.left(node, name) + own + sum(taken.values()) - self._wanted[name]
            if spare < 0:
                return None
            always |= {key for key, amount in taken.items() if amount > spare}
            some.append(frozenset(key for key, amount in taken.items() if amount))
        return frozenset(always), some

    def _taken(self, key: ObjectKey, node: str, resource: str) -> int:
        charge = self._room.charged(key)
        return charge.amounts.get(resource, 0) if charge is not None and charge.node == node else 0


class _GangSearch(_Search):
    """Empties the cheapest nodes for enough members, domain by domain."""

    def _explore(self) -> bool:
        assert isinstance(self._attempts.wanted, WantedGang)
        self._question = self._attempts.wanted.question
        kinds: dict[tuple[str, ...], Sequence[ResourceClaim]] = {}
        for member in self._question.members:
            key = tuple(claim.spec.model_dump_json() for claim in member.claims)
            kinds.setdefault(key, member.claims)
        self._bounds = [Bounds(claims, self._snapshot, self._holds, apart=True) for claims in kinds.values()]
        self._costs = [np.minimum.reduce([one.of_nodes(1) for one in self._bounds])]
        """For 1, 2, ... members on a node, (4, N) a bound for each node, whatever kind they are"""
        while len(self._costs) < min(len(self._question.members), COPIES):
            copies = len(self._costs) + 1
            self._costs.append(np.minimum.reduce([one.of_nodes(copies) for one in self._bounds]))
        everyone = self._holds.eligible
        if not self._attempts.could_fit(everyone):
            return True
        domains = sorted(((self._least(mask), at, mask) for at, mask in enumerate(self._domains())))
        self._bound = domains[0][0] if domains else NOTHING
        for bound, _, mask in domains[:DOMAINS]:
            if self._sets.best is not None and bound[:4] >= self._sets.best[0][:4]:
                break
            count = self._question.least
            for _ in range(WIDER):
                if self._try(self._cheapest(mask, count)):
                    break
                count += max(count // 2, 1)
        if self._sets.best is None:
            self._try(everyone)
        if len(everyone) > COMPLETE:
            return False
        self._sets.search(everyone)
        return True

    def _domains(self) -> Iterator[Mask]:
        """(N,) the nodes of each domain that all members may have to share; all nodes without such a need."""
        tiers = Tiers(self._question, self._nodes, self._snapshot)
        for grouping in tiers.groupings(tiers.required()):
            yield from (grouping.codes == number for number in range(len(grouping.names)))
            return  # others differ in the devices that may be used

    def _least(self, mask: Mask) -> Cost:
        """No set costs less with which enough members fit on these nodes, each where it costs least.

        More members than are looked at cost as little as the last number that is, all together.
        """
        usable, least = mask & np.isfinite(self._costs[0][1]), self._question.least
        rates = np.full((4, int(usable.sum())), np.inf)
        size: Amounts = np.zeros(rates.shape[1], dtype=np.int64)
        for copies, costs in enumerate(self._costs, 1):
            most = copies if copies < COPIES else len(self._question.members)
            rates = np.minimum(rates, costs[:, usable] / most)
            size = np.where(np.isfinite(costs[1, usable]), most, size)
        if size.sum() < least:
            return Cost(2**62)
        total = []
        for rate in (rates[0], self._costs[0][1, usable], rates[2], rates[3]):
            order = np.argsort(rate, kind="stable")
            taken = np.diff(np.minimum(np.cumsum(size[order]), least), prepend=0)
            total.append((taken, rate[order]))
        violations, priorities, pods = whole(
            np.array([float((taken * rate).sum()) for taken, rate in (total[0], total[2], total[3])])
        ).tolist()
        highest = total[1][1][total[1][0] > 0].max()
        return Cost(int(violations), int(highest), int(priorities), int(pods), 0, -float("inf"))

    def _cheapest(self, mask: Mask, count: int) -> Pods:
        """The pods of the cheapest nodes on which so many members may fit."""
        entries = []
        for copies, costs in enumerate(self._costs, 1):
            for at in np.flatnonzero(mask & np.isfinite(costs[1])).tolist():
                violations, highest, priorities, pods = costs[:, at].tolist()
                entries.append((violations / copies, highest, priorities / copies, pods / copies, at, copies))
        chosen: dict[int, int] = {}
        for *_, at, copies in sorted(entries):
            if count <= 0:
                break
            if at not in chosen:
                chosen[at] = min(copies, count)
                count -= chosen[at]
        found = [
            bounds.cheapest(at, copies, self._pricing.least)
            for at, copies in chosen.items()
            for bounds in self._bounds
        ]
        return self._occupants.together(frozenset().union(*found)) & self._holds.eligible

    def _try(self, pods: Pods) -> bool:
        """Try a set, without those that leave for nothing."""
        if self._occupants.together(pods) != pods or not self._attempts.fits(pods):
            return False
        self._sets.consider(pods)
        for fewer in self._used(pods, self._attempts.places(pods)):
            if fewer != pods and self._attempts.fits(fewer):
                self._sets.consider(fewer)
                break
        return self._sets.best is not None

    def _used(self, pods: Pods, places: Sequence[Place]) -> tuple[Pods, Pods]:
        """The pods whose devices the gang takes; and all on its nodes, in case it needs their room."""
        nodes, fleet = {one.node for one in places}, self._snapshot.fleet
        plans = [plan for one in places for plan in one.plans]
        taken = [result.id for plan in plans for result in plan.allocation.devices.results]
        holders = self._holds.at(row for device in taken for row in fleet.rows_of(device)) & pods
        beside = {key for key in pods if self._occupants.pods[key].node in nodes}
        together = self._occupants.together
        return together(holders) & pods, together(holders | beside) & pods
