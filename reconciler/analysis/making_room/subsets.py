"""The cheapest set of pods without which something fits: every set is tried, or excluded by a proof.

It relies on one property: what fits without some pods fits without more, or `could` says so. Source: MAKE-6.
"""

from collections.abc import Callable, Iterable, Sequence

from reconciler.analysis.making_room.costs import Cost, Pricing
from reconciler.analysis.making_room.units import Occupants, Pods
from reconciler.api.objects.meta import ObjectKey

Fits = Callable[[Pods], bool]


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
        if self._could(frozenset(atoms)):
            self._decide(atoms, 0, frozenset(), frozenset(), list(needed))

    def _decide(self, atoms: list[ObjectKey], at: int, gone: Pods, stays: Pods, needed: list[Pods]) -> None:
        needed = [one for one in needed if not one & stays]
        if self.best is not None and self._least(gone, needed) >= self.best[0]:
            return
        if not needed:
            return
        if self._fits(gone) and (self._accepts is None or self._accepts(gone)):
            cost = self._pricing.of(gone)
            if self.best is None or cost < self.best[0]:
                self.best = cost, gone
            return
        while at < len(atoms) and atoms[at] in gone:
            at += 1
        if at == len(atoms):
            return
        pod = atoms[at]
        if self._could(gone.union(atoms[at + 1 :])):
            self._decide(atoms, at + 1, gone, stays | {pod}, needed)
        more = self._occupants.together(gone | {pod})
        if more <= self._eligible and not more & stays:
            self._decide(atoms, at + 1, more, stays, needed)

    def _least(self, gone: Pods, needed: Sequence[Pods]) -> Cost:
        """The least cost of a set with all of `gone` and one of `needed`."""
        least = self._pricing.least
        return min((least(gone | one) for one in needed), default=least(gone))
