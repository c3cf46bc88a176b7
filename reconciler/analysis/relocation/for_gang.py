"""A cheap set for a gang: the cheapest nodes for its members, domain by domain. Source: MAKE-7.

A small number of pods is searched completely. Otherwise the bound of the nodes says how good the set is.
"""

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np

from kernels.bounds import whole
from kernels.types import Mask, Rows
from reconciler.analysis.relocation.bounds import Bounds, Costs, Holds
from reconciler.analysis.relocation.leaving import Attempts, OutOfTries
from reconciler.analysis.relocation.occupants import Pods
from reconciler.analysis.relocation.victim_sets import NOTHING, Cost, Fits, Found, Pricing, Subsets
from reconciler.analysis.relocation.wanted import Place, WantedGang
from reconciler.api.objects.claims import ResourceClaim

COMPLETE = 14
"""Most pods that can leave for which all sets are searched"""
COPIES = 16
"""Most members that are expected on one node"""
DOMAINS = 20
"""Most domains that are tried"""
WIDER = 4
"""How often more nodes than needed are tried: constraints may exclude some"""


def search_gang(attempts: Attempts, holds: Holds, pricing: Pricing, accepts: Fits | None) -> Found:
    """A cheap set without which the wanted gang fits."""
    return _GangSearch(attempts, holds, pricing, accepts).run()


class _GangSearch:
    def __init__(self, attempts: Attempts, holds: Holds, pricing: Pricing, accepts: Fits | None) -> None:
        assert isinstance(attempts.wanted, WantedGang)
        self._attempts, self._holds, self._pricing, self._accepts = attempts, holds, pricing, accepts
        self._question = attempts.wanted.question
        self._snapshot = attempts.trial.snapshot
        self._order = self._snapshot.topology.order
        kinds: dict[tuple[str, ...], Sequence[ResourceClaim]] = {}
        for member in self._question.members:
            key = tuple(claim.spec.model_dump_json() for claim in member.claims)
            kinds.setdefault(key, member.claims)
        self._bounds = [Bounds(claims, self._snapshot, holds, apart=True) for claims in kinds.values()]
        self._of_copies = self._costs()
        self._best: tuple[Cost, Pods] | None = None

    def _costs(self) -> list[Costs]:
        """For 1, 2, ... members on a node, (4, N) a bound for each node, whatever kind they are."""
        found: list[Costs] = []
        for copies in range(1, min(len(self._question.members), COPIES) + 1):
            of_kinds = [bounds.of_nodes(copies) for bounds in self._bounds]
            least = np.minimum.reduce(of_kinds)
            if found and not np.isfinite(least[1]).any():
                break
            found.append(least)
        return found

    def run(self) -> Found:
        """Try the domains with the lowest bounds, then everything; then all sets if there are few."""
        domains = sorted(self._domains(), key=self._bound)
        bound = min((self._bound(mask) for mask in domains), default=NOTHING)
        everyone = self._holds.eligible
        try:
            if not self._attempts.could_fit(everyone):
                return Found(None, proved=not self._attempts.unsure)
            for mask in islice(domains, DOMAINS):
                if self._best is not None and self._bound(mask)[:4] >= self._best[0][:4]:
                    break
                self._try_domain(mask)
            if self._best is None:
                self._try(everyone)
            if len(everyone) <= COMPLETE:
                return self._complete()
        except OutOfTries:
            pass
        return Found(self._best[1] if self._best else None, proved=False, bound=bound)

    def _domains(self) -> Iterator[Mask]:
        """(N,) the nodes of each domain that all members may have to share; all nodes without such a need."""
        every = np.ones(len(self._order), dtype=np.bool_)
        keys = [tier.key for tier in self._question.tiers if tier.required]
        nodes = self._attempts.world.nodes
        values: dict[tuple[str | None, ...], list[int]] = {}
        for at, name in enumerate(self._order):
            values.setdefault(tuple(nodes.label(name, key) for key in keys), []).append(at)
        if not keys or all(value is None for one in values for value in one):
            yield every
            return
        for places in values.values():
            mask = np.zeros(len(self._order), dtype=np.bool_)
            mask[places] = True
            yield mask

    def _bound(self, mask: Mask) -> Cost:
        """No set costs less with which enough members fit on these nodes."""
        least = self._question.least
        rates, highest, size = self._rates(mask)
        total = [0.0, 0.0, 0.0, 0.0]
        for number in (0, 2, 3):
            order = np.argsort(rates[number], kind="stable")
            count = np.minimum(np.cumsum(size[order]), least)
            taken = np.diff(count, prepend=0)
            if not len(count) or count[-1] < least:
                return Cost(2**62)
            total[number] = float((taken * rates[number][order]).sum())
        order = np.argsort(highest, kind="stable")
        at = int(np.searchsorted(np.cumsum(size[order]), least))
        violations, _, priorities, pods = whole(np.array(total)).tolist()
        return Cost(int(violations), int(highest[order[at]]), int(priorities), int(pods), -float("inf"))

    def _rates(self, mask: Mask) -> tuple[Costs, Costs, Rows]:
        """(4, n) the least cost of a member on each usable node, (n,) the highest priority, (n,) members."""
        usable = mask & np.isfinite(self._of_copies[0][1])
        rates, size = np.full((4, int(usable.sum())), np.inf), np.zeros(int(usable.sum()), dtype=np.int64)
        for copies, costs in enumerate(self._of_copies, 1):
            here = costs[:, usable]
            # More members than are looked at cost as little as the last number that is, all together.
            most = copies if copies < COPIES else len(self._question.members)
            rates = np.minimum(rates, here / most)
            size = np.where(np.isfinite(here[1]), most, size)
        return rates, self._of_copies[0][1, usable], size

    def _try_domain(self, mask: Mask) -> None:
        """Empty the cheapest nodes of a domain, more of them if constraints exclude some."""
        count = self._question.least
        for _ in range(WIDER):
            pods = self._cheapest(mask, count)
            if self._try(pods):
                return
            count += max(count // 2, 1)

    def _cheapest(self, mask: Mask, count: int) -> Pods:
        """The pods of the cheapest nodes on which so many members may fit."""
        chosen: dict[int, int] = {}
        entries = []
        for copies, costs in enumerate(self._of_copies, 1):
            for at in np.flatnonzero(mask & np.isfinite(costs[1])).tolist():
                each = costs[:, at] / copies
                entries.append(((each[0], costs[1, at], each[2], each[3]), at, copies))
        left = count
        for _, at, copies in sorted(entries):
            if left <= 0:
                break
            if at not in chosen:
                chosen[at] = min(copies, left)
                left -= chosen[at]
        found: set[Pods] = set()
        for at, copies in chosen.items():
            for bounds in self._bounds:
                found.add(bounds.cheapest(at, copies, self._pricing.least))
        pods = self._holds.occupants.together(frozenset().union(*found))
        return pods & self._holds.eligible

    def _try(self, pods: Pods) -> bool:
        """Try a set, without those that leave for nothing."""
        if not pods <= self._holds.eligible or self._holds.occupants.together(pods) != pods:
            return False
        if not self._attempts.fits(pods):
            return False
        self._note(pods)
        for fewer in self._used(pods, self._attempts.places(pods)):
            if fewer != pods and self._attempts.fits(fewer):
                self._note(fewer)
                break
        return self._best is not None

    def _note(self, pods: Pods) -> None:
        cost = self._pricing.of(pods)
        if (self._best is None or cost < self._best[0]) and (self._accepts is None or self._accepts(pods)):
            self._best = cost, pods

    def _used(self, pods: Pods, places: Sequence[Place]) -> tuple[Pods, Pods]:
        """The pods whose devices the gang takes; and all on its nodes, in case it needs their room."""
        occupants, nodes = self._holds.occupants, {one.node for one in places}
        fleet = self._snapshot.fleet
        plans = [plan for one in places for plan in one.plans]
        taken = [result.id for plan in plans for result in plan.allocation.devices.results]
        rows = [row for device in taken for row in fleet.rows_of(device)]
        holders = self._holds.at(rows) & pods
        beside = {key for key in pods if occupants.pods[key].node in nodes}
        return occupants.together(holders) & pods, occupants.together(holders | beside) & pods

    def _complete(self) -> Found:
        subsets = Subsets(
            self._holds.occupants,
            self._holds.eligible,
            self._pricing,
            self._attempts.fits,
            self._attempts.could_fit,
            self._accepts,
        )
        subsets.best = self._best
        try:
            subsets.search(self._holds.eligible)
        finally:
            self._best = subsets.best
        proved = not self._attempts.unsure
        if self._best is None:
            return Found(None, proved=proved)
        return Found(self._best[1], proved=proved, bound=self._best[0])
