"""The domains of some tiers, the smallest first, and how many pods fit into each at most."""

from typing import NamedTuple

import numpy as np
from msgspec import Struct

from kernels.gangs import per_domain
from kernels.types import Amounts, Mask, Rows
from reconciler.allocation.gangs.tiers import Grouping
from reconciler.api.objects.gangs import Tier


class Best(NamedTuple):
    """The domain of the required tiers in which most pods fit."""

    met: tuple[tuple[Tier, str], ...]
    inside: Mask
    """(N,)"""
    domains: int
    """How many there are"""


NOWHERE = Best((), np.zeros(0, dtype=np.bool_), 0)
"""No domain"""


class Level(Struct, frozen=True, eq=False):
    """The G domains of some tiers, all of which are labels of nodes."""

    grouping: Grouping
    ranks: Rows
    """(G,) of their names"""

    @classmethod
    def of(cls, grouping: Grouping) -> "Level":
        """Rank the domains by name, once for all sets."""
        names = grouping.names
        ranks = np.empty(len(names), dtype=np.intp)
        ranks[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
        return cls(grouping, ranks)

    def domains(self, free: Amounts, each: Amounts, count: int) -> tuple[Rows, Amounts]:
        """The domains in the order in which they are tried, and how many pods fit into each at most.

        Small domains are tried first.

        free  (N,)  devices that a pod could use
        each  (N,)  pods that fit, at most `count`
        ->    (G,)  numbers of domains; and (G,) pods, by number, at most `count`
        """
        size = len(self.ranks)
        sizes = per_domain(free, self.grouping.codes, size)
        most = np.minimum(per_domain(each, self.grouping.codes, size), count)
        return np.lexsort((self.ranks, sizes)), most

    def best(self, order: Rows, most: Amounts) -> Best:
        """The domain with the most pods, the first of equals; without inside if there is none."""
        if not len(order):
            return NOWHERE
        number = int(order[most[order].argmax()])
        return Best(self.met(number), self.grouping.codes == number, len(order))

    def met(self, number: int) -> tuple[tuple[Tier, str], ...]:
        """The tiers of a domain, each with the value that all its nodes share."""
        return tuple(zip(self.grouping.met, self.grouping.names[number], strict=True))
