"""Who holds which device, as columns: the units that can leave, and what is left without all of them."""

from collections.abc import Callable, Iterable
from functools import cached_property

import numpy as np

from kernels.distinct import distinct, distinct_pairs
from kernels.leaving import Weights, freed_draws
from kernels.types import Amounts, Mask, Rows
from reconciler.analysis.making_room.costs import OFFSET
from reconciler.analysis.making_room.units import Occupant, Occupants, Pods
from reconciler.api.objects.meta import ObjectKey
from reconciler.state.devices.snapshot.snapshot import Snapshot

STAYS = -1
"""The unit of claims that nobody can free"""


class Holds:
    """H holds of devices by claims, and U units: sets of pods without which a claim is free."""

    def __init__(
        self,
        occupants: Occupants,
        snapshot: Snapshot,
        may_leave: Callable[[Occupant], bool],
    ) -> None:
        self.occupants = occupants
        self._snapshot = snapshot
        self.eligible = frozenset(key for key, one in occupants.pods.items() if may_leave(one))
        self.units: list[Pods] = []
        """The pods of each unit"""
        numbers: dict[Pods, int] = {}
        rows: list[int] = []
        units: list[int] = []
        alone: list[bool] = []
        holders: list[int] = []
        several: list[int] = []
        for at, (claim, users) in enumerate(occupants.users.items()):
            number = self._unit(users, numbers)
            for result in occupants.allocations[claim].devices.results:
                if result.admin_access:
                    continue
                found = snapshot.fleet.rows_of(result.id)
                count = len(found)
                rows += found
                units += [number] * count
                holders += [at] * count
                alone += [not result.share_id] * count
                if count > 1:
                    several += found
        self.rows: Rows = np.array(rows, dtype=np.intp)
        """(H,) rows of the fleet"""
        self.unit: Rows = np.array(units, dtype=np.intp)
        """(H,) the unit that frees the hold; `STAYS` if none does"""
        self.alone: Mask = np.array(alone, dtype=np.bool_)
        """(H,) held exclusively"""
        self._holder: Rows = np.array(holders, dtype=np.intp)
        """(H,) the claim, as a position in `users` of the occupants"""
        self._several = several
        """Rows of devices that have several rows"""

    def _unit(self, users: Pods, numbers: dict[Pods, int]) -> int:
        if not users or not users <= self.eligible:
            return STAYS
        pods = self.occupants.together(users)
        if not pods <= self.eligible:
            return STAYS
        if pods not in numbers:
            numbers[pods] = len(self.units)
            self.units.append(pods)
        return numbers[pods]

    @cached_property
    def kept(self) -> Mask:
        """(D,) held exclusively by a claim that nobody can free."""
        found = np.zeros(self._snapshot.fleet.size, dtype=np.bool_)
        found[self.rows[self.alone & (self.unit == STAYS)]] = True
        return found

    @cached_property
    def apart(self) -> dict[ObjectKey, int]:
        """Claim -> how many of its devices are free without it until somebody takes them themselves."""
        fleet, occupancy, claims = self._snapshot.fleet, self._snapshot.occupancy, self.occupants.users
        if occupancy.open is not None:
            return dict.fromkeys(claims, 0)  # other devices can exclude them
        own = np.bincount(self.rows, minlength=fleet.size) == 1
        own[[*occupancy.held_for, *self._several]] = False
        own &= (fleet.sets < 0).all(axis=1)
        counts = np.bincount(self._holder[self.alone & own[self.rows]], minlength=len(claims))
        return dict(zip(claims, counts.tolist(), strict=True))

    @cached_property
    def _leaving(self) -> tuple[Rows, Rows]:
        """(L,) rows and (L,) units, each pair once, of devices that are free when all units have left."""
        stays = np.zeros(self._snapshot.fleet.size, dtype=np.bool_)
        stays[self.rows[self.unit == STAYS]] = True
        among = ~stays[self.rows]
        return distinct_pairs(self.rows[among], self.unit[among])

    @cached_property
    def freed(self) -> tuple[Rows, Rows, Amounts]:
        """See `kernels.leaving.freed_draws`."""
        fleet, (rows, units) = self._snapshot.fleet, self._leaving
        return freed_draws(fleet.sets[rows], fleet.draws[rows], fleet.table, units)

    @cached_property
    def most(self) -> Amounts:
        """(S, C) what is left of the counter sets when all units have left."""
        fleet, rows = self._snapshot.fleet, distinct(self._leaving[0])
        most = self._snapshot.occupancy.left.copy()
        for k in range(fleet.sets.shape[1]):
            drawing = rows[fleet.sets[rows, k] >= 0]
            np.add.at(most, fleet.sets[drawing, k], fleet.table[fleet.draws[drawing, k]])
        return most

    @cached_property
    def weights(self) -> tuple[Weights, Weights, Weights, Weights]:
        """(U,) each: violations, highest priority, sum of priorities, pods.

        The sums of several units are not above those of their pods together: units share the pods that they
        have in common.
        """
        shared: dict[ObjectKey, int] = {}
        for unit in self.units:
            for key in unit:
                shared[key] = shared.get(key, 0) + 1
        allowed, pods = self.occupants.budgets.allowed, self.occupants.pods
        found = np.zeros((4, len(self.units)))
        found[1] = -np.inf
        for at, unit in enumerate(self.units):
            for key in unit:
                one, share = pods[key], 1 / shared[key]
                priority = one.priority
                if one.budgets:
                    found[0, at] += share * any(not allowed[number] for number in one.budgets)
                found[1, at] = max(found[1, at], priority)
                found[2, at] += share * (priority + OFFSET)
                found[3, at] += share
        return found[0], found[1], found[2], found[3]

    @cached_property
    def weights_apart(self) -> tuple[Weights, Weights, Weights, Weights]:
        """The same, with sums divided by the number of nodes on which a unit holds devices."""
        nodes = self._snapshot.fleet.codes["node"][self.rows]
        leaves = self.unit != STAYS
        unit, _ = distinct_pairs(self.unit[leaves], nodes[leaves])
        often = np.maximum(np.bincount(unit, minlength=len(self.units)), 1)
        violations, highest, priorities, pods = self.weights
        return violations / often, highest, priorities / often, pods / often

    def at(self, rows: Iterable[int]) -> Pods:
        """The pods that can leave and hold one of these devices."""
        wanted = np.zeros(self._snapshot.fleet.size, dtype=np.bool_)
        wanted[list(rows)] = True
        units = distinct(self.unit[wanted[self.rows] & (self.unit != STAYS)])
        return frozenset().union(*(self.units[unit] for unit in units.tolist()))
