"""All gated pods that share claims: whether they fit on nodes together. Source: FIT-11.

Frozen when it is made, so that a search in another thread may ask it.
"""

from collections import Counter as Numbers
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from itertools import compress

import numpy as np

from kernels.domains import Counter, Even, Rule, Vacant, Within
from kernels.matching import Supply
from kernels.together import Kind, fit_together
from kernels.types import Amounts, Mask
from reconciler.api.objects.meta import ObjectKey

STEPS = 2_000
"""How often the nodes for a pod may be computed for one set of nodes"""
SHOWN = 5
"""Most pods that a message names"""


class Together:
    """N nodes, in the order of a topology."""

    def __init__(
        self,
        pods: Sequence[ObjectKey],
        kinds: Sequence[tuple[Kind, tuple[int, ...]]],
        counters: Sequence[Counter],
        free: Amounts,
        order: tuple[str, ...],
        supply: Supply,
    ) -> None:
        """`kinds` has one of each pod, in their order, with the positions of its claims in the decision.

        free   (R, N)
        supply the volumes that they compete for
        """
        self.pods = tuple(pods)
        self.refused: list[tuple[Mask, ...]] = []
        """Sets of nodes, claim by claim, on which the pods do not fit; the journal records them"""
        self.gave_up = False
        """Whether a search was too long. The pods count as not fitting there"""
        self.nowhere = any(not kind.allowed.any() for kind, _ in kinds)
        """Whether one of the pods suits no node even alone"""
        self._each = tuple(kinds)
        self._kinds = tuple(grouped(kinds))
        self._counters = tuple(counters)
        self._free = free
        self._order = order
        self._supply = supply
        self._verdicts: dict[tuple[bytes, ...], bool] = {}

    def fit(self, reach: Sequence[Mask], spend: Callable[[], object] = lambda: None) -> bool:
        """Whether all pods fit on nodes that reach their claims; cached. See `Companions`."""
        key = tuple(mask.tobytes() for mask in reach)
        if key not in self._verdicts:
            self._verdicts[key] = self._search(self._kinds, reach, spend) is not None
            if not self._verdicts[key]:
                self.refused.append(tuple(reach))
        return self._verdicts[key]

    def places(
        self, reach: Sequence[Mask], spend: Callable[[], object] = lambda: None
    ) -> dict[ObjectKey, str] | None:
        """A node for each pod, if all fit on nodes that reach their claims."""
        found = self._search(self._each, reach, spend)
        if found is None:
            return None
        return {pod: self._order[place] for pod, (place,) in zip(self.pods, found, strict=True)}

    def refused_nodes(self) -> Iterator[tuple[tuple[str, ...], ...]]:
        """The sets of nodes on which the pods did not fit, by name, claim by claim."""
        for sets in self.refused:
            yield tuple(tuple(compress(self._order, mask.tolist())) for mask in sets)

    def refusal(self) -> str:
        """Why a decision is refused that does not serve all pods."""
        names = ", ".join(map(str, self.pods[:SHOWN]))
        more = f" and {len(self.pods) - SHOWN} more" if len(self.pods) > SHOWN else ""
        text = f"the {len(self.pods)} gated pods that share the claims do not all fit on the nodes of any "
        text += f"free device: {names}{more}"
        return f"{text}; a search gave up after {STEPS} steps" if self.gave_up else text

    def on_one_node(self) -> Mask:
        """(N,) nodes on which all pods may fit at once. The others are excluded by counting."""
        found = np.ones(self._free.shape[1], dtype=np.bool_)
        codes = [one.codes for one in self._counters]
        counts = [one.counts for one in self._counters]
        need = np.zeros(len(self._free), dtype=np.int64)
        for kind, _ in self._kinds:
            need += kind.wanted * kind.number
            found &= kind.allowed
            for rule in kind.rules:
                if rule.tightens:
                    found &= rule.allows(codes, counts)
        for r in np.flatnonzero(need).tolist():
            found &= self._free[r] >= need[r]
        needed = Numbers(at for kind, _ in self._kinds for at in kind.needs for _ in range(kind.number))
        for at, number in needed.items():
            least = 1 if self._supply.joint[at] else number
            found &= self._supply.spared[at] | (self._supply.each(at) >= least)
        return found

    def _search(
        self,
        of: Sequence[tuple[Kind, tuple[int, ...]]],
        reach: Sequence[Mask],
        spend: Callable[[], object],
    ) -> tuple[tuple[int, ...], ...] | None:
        """Kind -> the places of its pods."""
        kinds = []
        for kind, claims in of:
            allowed = kind.allowed
            for at in claims:
                allowed = allowed & reach[at]
            if not allowed.any():
                return None
            kinds.append(replace(kind, allowed=allowed))
        among = np.any([kind.allowed for kind in kinds], axis=0)
        outcome = fit_together(
            kinds, self._counters, self._free, among, steps=STEPS, on_step=spend, supply=self._supply
        )
        self.gave_up = self.gave_up or not outcome.complete
        return outcome.places


def grouped(
    kinds: Sequence[tuple[Kind, tuple[int, ...]]],
) -> list[tuple[Kind, tuple[int, ...]]]:
    """Alike pods as one kind. The order is kept."""
    found: dict[Hashable, tuple[Kind, tuple[int, ...]]] = {}
    for kind, claims in kinds:
        key = (
            kind.allowed.tobytes(),
            kind.wanted.tobytes(),
            frozenset(map(_rule_key, kind.rules)),
            kind.adds,
            kind.needs,
            claims,
        )
        if key in found:
            alike, _ = found[key]
            found[key] = replace(alike, number=alike.number + kind.number), claims
        else:
            found[key] = kind, claims
    return list(found.values())


def _rule_key(rule: Rule) -> Hashable:
    match rule:
        case Vacant(counter=counter):
            return counter
        case Even(counter=counter, skew=skew, own=own, least=least, domains=domains):
            return counter, skew, own, least, domains.tobytes()
        case Within(single=single, own=own, mine=mine):
            return single, own, mine
    return rule  # type: ignore[return-value]
