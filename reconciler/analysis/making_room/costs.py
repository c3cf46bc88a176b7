"""What it costs to have pods leave, so that the cheapest set can be chosen. Source: MAKE-4."""

from collections.abc import Callable, Iterable
from math import inf
from typing import NamedTuple

from reconciler.analysis.making_room.units import Occupant, Occupants, Pods
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
