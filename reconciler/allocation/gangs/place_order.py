"""In which order the next member of a gang tries places: as placement policies and its pod prefer them.

The members that have a place already count, as pods and by their devices. An order excludes no place.
Source: GANG-12.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from kernels.types import Mask, Rows
from reconciler.allocation.dra.budget import Budget
from reconciler.allocation.dra.node_order import preferred_places
from reconciler.allocation.gangs.kinds import Kind
from reconciler.allocation.gangs.places import Places
from reconciler.allocation.policies.pod_room import PodRoom
from reconciler.allocation.policies.selection import Policies
from reconciler.api.objects.claims import ResourceClaim
from reconciler.state.trial import Trial


class PlaceOrder:
    """Orders the places of one domain."""

    def __init__(
        self, parts: Sequence[Rows], places: Places, trial: Trial, policies: Policies, budget: Budget
    ) -> None:
        """`parts` are the places of the domain in the order in which they are tried; policies order each."""
        self._parts, self._places, self._trial = parts, places, trial
        self._policies, self._budget = policies, budget
        self.fixed = policies.order_nothing
        """Whether the order is always that of the parts"""

    def of(self, kind: Kind, member: int, claims: Sequence[ResourceClaim], allowed: Mask) -> Iterator[int]:
        """The allowed places (N,) in order. `claims` are those that the member brings.

        Whenever another place is asked for, the trial is as it was at first.
        """
        parts = [part[allowed[part]] for part in self._parts]
        for part in parts:
            if self.fixed or len(part) < 2:
                yield from part.tolist()
                continue
            among = np.zeros(len(allowed), dtype=np.bool_)
            among[part] = True
            yield (first := next(self._preferred(kind, member, claims, among)))
            # Ordered again, so that no snapshot is kept while others are placed: each would copy columns.
            yield from [place for place in self._preferred(kind, member, claims, among) if place != first]

    def room(self, kind: Kind, member: int) -> PodRoom | None:
        """What policies may know of a member, and what it prefers."""
        return self._places.room(kind, member, self._policies, self._trial.snapshot)

    def _preferred(
        self, kind: Kind, member: int, claims: Sequence[ResourceClaim], among: Mask
    ) -> Iterator[int]:
        """The places in `among` (N,) in the order of the policy for these claims; none orders pods alone."""
        snapshot = self._trial.snapshot
        policy = self._policies.of(claims, snapshot, self._budget) if claims else None
        prefer = preferred_places(claims, snapshot, policy, self.room(kind, member))
        return iter(np.flatnonzero(among).tolist()) if prefer is None else prefer(among)
