"""The domains in which a gang is tried, in order, and how many members fit into each at most.

Source: GANG-7.
"""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from kernels.types import Amounts, Rows
from reconciler.allocation.gangs.kinds import Kind
from reconciler.allocation.gangs.limits import Limits
from reconciler.allocation.gangs.places import Places
from reconciler.allocation.gangs.tiers import Grouping, Tiers
from reconciler.api.objects.gangs import Tier
from reconciler.state.trial import Trial


class Domain(Struct, eq=False):
    """Nodes, and perhaps devices, that share the values of some tiers."""

    grouping: Grouping
    number: int
    """In the grouping"""
    limits: Limits
    most: int
    """Members that fit, at most; lowered by searches"""

    @property
    def met(self) -> tuple[tuple[Tier, str], ...]:
        """The tiers, each with the value that all share."""
        return tuple(zip(self.grouping.met, self.grouping.names[self.number], strict=True))

    def places(self, tiers: Tiers) -> tuple[Rows, ...]:
        """Places in the order in which they are tried: by values of tiers that are not met, large first.

        Places of one part are equal in all of these; policies may order them.
        """
        places = np.flatnonzero(self.grouping.codes == self.number)
        each = self.limits.each.sum(axis=0)
        return spread_last(places, each, self.grouping.met, tiers)


def spread_last(places: Rows, each: Amounts, met: Sequence[Tier], tiers: Tiers) -> tuple[Rows, ...]:
    """Places of one domain in an order that fills the domains of tiers that are not met, large first.

    places (P,)  rising
    each   (N,)  members that fit on each place

    Returns parts in that order. Places of one part are equal in all of these; policies may order them.
    """
    keys: list[np.ndarray] = [places]
    unmet = [tier for tier in tiers.tiers if tier not in met]
    if not unmet:
        return (places,)
    for codes in tiers.labels(unmet):  # the tightest first; the last key counts most
        here = codes[places]
        size = np.bincount(here, weights=each[places]).astype(np.int64)
        keys += [here, -size[here]]
    order = np.lexsort(keys)
    columns = np.array([key[order] for key in keys[1:]]).reshape(-1, len(order))
    starts = np.flatnonzero((columns[:, 1:] != columns[:, :-1]).any(axis=0)) + 1
    return tuple(np.split(places[order], starts))


class Domains:
    """All domains of a question, by the tiers that they meet."""

    def __init__(self, tiers: Tiers, kinds: Sequence[Kind], places: Places, trial: Trial) -> None:
        self._tiers, self._kinds, self._places, self._trial = tiers, kinds, places, trial
        self._of: dict[tuple[Tier, ...], list[Domain]] = {}
        self._limits: Limits | None = None
        self._numbers: Amounts = np.array([len(kind.members) for kind in kinds], dtype=np.int64)

    def meeting(self, met: tuple[Tier, ...]) -> list[Domain]:
        """The domains of some tiers, the smallest first: fewest free devices, then by name."""
        if met not in self._of:
            found = [entry for grouping in self._tiers.groupings(met) for entry in self._in(grouping)]
            found.sort(key=lambda entry: entry[0])
            self._of[met] = [domain for _, domain in found]
        return self._of[met]

    def _in(self, grouping: Grouping) -> list[tuple[tuple[int, tuple[str, ...]], Domain]]:
        limits = self._limits_of(grouping)
        size = len(grouping.names)
        most = limits.in_domains(grouping.codes, size, self._numbers).tolist()
        free = limits.devices_in(grouping.codes, size).tolist()
        return [
            ((free[number], grouping.names[number]), Domain(grouping, number, limits, most[number]))
            for number in range(size)
        ]

    def _limits_of(self, grouping: Grouping) -> Limits:
        def limits() -> Limits:
            snapshot = self._trial.snapshot
            return Limits(self._kinds, self._places.at_first, grouping.devices, self._trial.nodes, snapshot)

        if grouping.devices is not None:
            return limits()
        if self._limits is None:
            self._limits = limits()
        return self._limits
