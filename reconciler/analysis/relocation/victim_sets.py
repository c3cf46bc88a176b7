"""Sets of pods that may leave: what each costs, and the search for the cheapest. Source: MAKE-4, MAKE-6.

Every set is tried, or excluded by a proof. The search relies on one property: what fits without some pods
fits without more, or `could` says so.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import inf
from typing import NamedTuple

from msgspec import Struct

from reconciler.analysis.relocation.occupants import Occupant, Occupants, Pods
from reconciler.api.objects.meta import ObjectKey, time_of

OFFSET = 2**31
"""Added to each priority, as in kube-scheduler: more pods of negative priority cost more, too"""
NO_PRIORITY = -(2**31) - 1
"""The highest priority of no pod at all"""


class Cost(NamedTuple):
    """Costs compare from left to right. More pods always cost more."""

    violations: int = 0
    """Pods whose eviction violates a budget"""
    highest: int = NO_PRIORITY
    """The highest priority of a pod"""
    priorities: int = 0
    """The sum of the priorities, each with `OFFSET` added"""
    pods: int = 0
    groups: int = 0
    """PodGroups of the highest priority that leave whole: they count more than as many single pods"""
    started: float = 0.0
    """When the first of those of the highest priority started, negated: the one that ran longer costs more"""
    devices: int = 0
    """Devices that are released and still free when what is wanted has its place"""
    names: tuple[ObjectKey, ...] = ()


NOTHING = Cost()


class Pricing:
    """Prices sets of pods of one state."""

    def __init__(
        self, occupants: Occupants, spare: Callable[[Pods], int], least_spare: Callable[[Pods], int]
    ) -> None:
        """`spare` says how many devices pods release that are not needed, at the price of a search for the
        place of what is wanted; `least_spare` bounds that from below, at once.
        """
        self._occupants = occupants
        self._spare, self._least_spare = spare, least_spare
        self._started: dict[ObjectKey, float] = {}

    def of(self, pods: Pods) -> Cost:
        """What these pods cost. Without them it must fit; those that leave with them must be among them."""
        return self._of(pods, self._spare)

    def least(self, pods: Pods) -> Cost:
        """A bound: neither these pods cost less, nor any more of them."""
        return self._of(pods, self._least_spare)

    def _of(self, pods: Pods, spare: Callable[[Pods], int]) -> Cost:
        if not pods:
            return NOTHING
        known = self._occupants.pods
        found = [known[key] for key in pods]
        highest = max(one.priority for one in found)
        return Cost(
            violations=self._violations(found),
            highest=highest,
            priorities=sum(one.priority + OFFSET for one in found),
            pods=len(found),
            groups=self._occupants.wholes(one for one in found if one.priority == highest),
            started=-min(self._start(one.pod.key) for one in found if one.priority == highest),
            devices=spare(pods),
            names=tuple(sorted(pods)),
        )

    def _violations(self, found: Iterable[Occupant]) -> int:
        """The most important pods leave first, as in kube-scheduler: it matters if a pod has several."""
        covered = [one for one in found if one.budgets]
        covered.sort(key=lambda one: (-one.priority, self._start(one.pod.key), one.pod.key))
        return self._occupants.budgets.violating(one.budgets for one in covered)

    def _start(self, key: ObjectKey) -> float:
        """When a pod started, in seconds. One that has not started yet is the youngest."""
        if key not in self._started:
            started = time_of(self._occupants.pods[key].pod.status.start_time or "")
            self._started[key] = inf if started is None else started.timestamp()
        return self._started[key]


class Found(Struct, frozen=True):
    """The cheapest set that was found."""

    pods: Pods | None
    """None if none was found"""
    proved: bool
    """Whether it is proved that none costs less, or that there is none"""
    bound: Cost = NOTHING
    """No set costs less"""


Fits = Callable[[Pods, str | None], bool]
NONE: Pods = frozenset()


class _Partial(NamedTuple):
    """What is decided so far."""

    gone: Pods
    decided: int
    """So many of the pods are decided: those that are not gone stay. Some more may be gone with them"""
    needed: tuple[Pods, ...]
    """One of these leaves in any case"""


class Subsets:
    """The cheapest set so far, and a search that tries or excludes every other one."""

    def __init__(
        self,
        occupants: Occupants,
        eligible: Pods,
        pricing: Pricing,
        fits: Fits,
        could: Fits,
        accepts: Callable[[Pods], bool] | None = None,
    ) -> None:
        """`fits` may raise to end the search; `could` is true if it fits without some of the pods. Both are
        asked about one node, or about all (None). `accepts` is a further test, of sets that fit.
        """
        self._occupants, self._eligible = occupants, eligible
        self._pricing, self._fits, self._could = pricing, fits, could
        self._accepts = accepts
        self.best: tuple[Cost, Pods] | None = None
        """The cheapest set so far"""

    def consider(self, pods: Pods, on: str | None = None) -> bool:
        """Whether it fits without a set, which is then the best one unless another costs less."""
        if not self._fits(pods, on) or (self._accepts is not None and not self._accepts(pods)):
            return False
        cost = self._pricing.of(pods)
        if self.best is None or cost < self.best[0]:
            self.best = cost, pods
        return True

    def search(
        self, pods: Iterable[ObjectKey], on: str | None = None, needed: Sequence[Pods] = (frozenset(),)
    ) -> None:
        """Find the cheapest set among these pods, if it is cheaper than the best one.

        Decides pod by pod, the most expensive first, whether it stays or leaves. `needed`: one of these sets
        leaves in any case.
        """
        atoms = sorted(pods, key=lambda key: self._pricing.least(frozenset([key])), reverse=True)
        if not self._could(frozenset(atoms), on):
            return
        # A stack, not recursion: there may be thousands of pods.
        stack = [_Partial(NONE, 0, tuple(needed))]
        while stack:
            stack += self._decide(atoms, on, stack.pop())

    def _decide(self, atoms: Sequence[ObjectKey], on: str | None, at: _Partial) -> Iterator[_Partial]:
        """Look at a decision; what to decide next, the last one first."""
        stay = frozenset(atoms[: at.decided]) - at.gone
        needed = tuple(one for one in at.needed if not one & stay)
        if not needed or (self.best is not None and self._least(at.gone, needed) >= self.best[0]):
            return
        if self.consider(at.gone, on):
            return
        undecided = range(at.decided, len(atoms))
        place = next((one for one in undecided if atoms[one] not in at.gone), None)
        if place is None:
            return
        pod, rest = atoms[place], place + 1
        more = self._occupants.together(at.gone | {pod})
        if more <= self._eligible and not more & stay:
            yield _Partial(more, rest, needed)
        if self._could(at.gone.union(atoms[rest:]), on):
            yield _Partial(at.gone, rest, needed)

    def _least(self, gone: Pods, needed: Sequence[Pods]) -> Cost:
        """The least cost of a set with all of `gone` and one of `needed`."""
        return min(self._pricing.least(gone | one) for one in needed)
