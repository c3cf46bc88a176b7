"""The cheapest set of pods without which something fits: every set is tried, or excluded by a proof.

It relies on one property: what fits without some pods fits without more, or `could` says so. Source: MAKE-6.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from reconciler.analysis.making_room.costs import Cost, Pricing
from reconciler.analysis.making_room.units import Occupants, Pods
from reconciler.api.objects.meta import ObjectKey

Fits = Callable[[Pods], bool]
NONE: Pods = frozenset()


class _Partial(NamedTuple):
    """What is decided so far."""

    gone: Pods
    decided: int
    """So many of the pods are decided: those that are not gone stay. Some more may be gone with them"""
    needed: tuple[Pods, ...]
    """One of these leaves in any case"""


class Subsets:
    """Decides pod by pod, the most expensive first, whether it stays or leaves."""

    def __init__(
        self,
        occupants: Occupants,
        eligible: Pods,
        pricing: Pricing,
        fits: Fits,
        could: Fits,
        accepts: Fits | None = None,
    ) -> None:
        """`fits` may raise to end the search; `could` is true if it fits without some of the pods. `accepts`
        is a further test, of sets that fit.
        """
        self._occupants, self._eligible = occupants, eligible
        self._pricing, self._fits, self._could = pricing, fits, could
        self._accepts = accepts
        self.best: tuple[Cost, Pods] | None = None
        """The cheapest set so far"""

    def search(self, pods: Iterable[ObjectKey], needed: Sequence[Pods] = (frozenset(),)) -> None:
        """Find the cheapest set among these pods, if it is cheaper than the best one.

        `needed`: one of these sets leaves in any case.
        """
        atoms = sorted(pods, key=lambda key: self._pricing.least(frozenset([key])), reverse=True)
        if not self._could(frozenset(atoms)):
            return
        # A stack, not recursion: there may be thousands of pods.
        stack = [_Partial(NONE, 0, tuple(needed))]
        while stack:
            stack += self._decide(atoms, stack.pop())

    def _decide(self, atoms: Sequence[ObjectKey], at: "_Partial") -> Iterator["_Partial"]:
        """Look at a decision; what to decide next, the last one first."""
        stay = frozenset(atoms[: at.decided]) - at.gone
        needed = tuple(one for one in at.needed if not one & stay)
        if not needed or (self.best is not None and self._least(at.gone, needed) >= self.best[0]):
            return
        if self._fits(at.gone) and (self._accepts is None or self._accepts(at.gone)):
            cost = self._pricing.of(at.gone)
            if self.best is None or cost < self.best[0]:
                self.best = cost, at.gone
            return
        undecided = range(at.decided, len(atoms))
        place = next((one for one in undecided if atoms[one] not in at.gone), None)
        if place is None:
            return
        pod, rest = atoms[place], place + 1
        more = self._occupants.together(at.gone | {pod})
        if more <= self._eligible and not more & stay:
            yield _Partial(more, rest, needed)
        if self._could(at.gone.union(atoms[rest:])):
            yield _Partial(at.gone, rest, needed)

    def _least(self, gone: Pods, needed: Sequence[Pods]) -> Cost:
        """The least cost of a set with all of `gone` and one of `needed`."""
        least = self._pricing.least
        return min((least(gone | one) for one in needed), default=least(gone))
