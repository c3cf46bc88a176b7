"""Lower bounds of what it costs to make room on each node, for all nodes at once. Source: MAKE-6.

Each request is looked at alone: whoever holds a device, or draws what it needs, has to leave before it can
be allocated. A bound is never above the true cost: it ignores constraints, capacities and other resources.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

import numpy as np
from msgspec import Struct

from kernels.bounds import Weights, forced, freed_draws, nth_of_group, sums_of_group, whole
from kernels.fit import fits, total_draw
from kernels.groups import distinct, distinct_pairs
from kernels.types import Amounts, Mask, Rows
from reconciler.allocation.dra.availability import available
from reconciler.allocation.dra.budget import Fatal
from reconciler.allocation.dra.claim_shapes import claim_shape
from reconciler.allocation.dra.request_options import RequestKey, RequestOption, Slot
from reconciler.analysis.relocation.occupants import Occupant, Occupants, Pods
from reconciler.analysis.relocation.victim_sets import NO_PRIORITY, OFFSET, Cost
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.meta import ObjectKey
from reconciler.state.devices.snapshot import Snapshot

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
        """See `kernels.bounds.freed_draws`."""
        fleet, (rows, units) = self._snapshot.fleet, self._leaving
        return freed_draws(fleet.sets[rows], fleet.draws[rows], fleet.table, units)

    @cached_property
    def most(self) -> Amounts:
        """(S, C) what is left of the counter sets when all units have left."""
        fleet, rows = self._snapshot.fleet, distinct(self._leaving[0])
        drawn = total_draw(len(fleet.totals), fleet.table, fleet.sets[rows], fleet.draws[rows])
        most = self._snapshot.occupancy.left + drawn
        for device, units in self._snapshot.occupancy.requested.items():
            first = int(fleet.first_set[fleet.index[device.pool_id]])
            for place, much in units.items():
                most[first + place.set, place.counter] += much
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


Costs = Weights
"""(4, N) violations, highest priority, sum of priorities, pods; infinite where nothing could ever fit"""


class Devices(Struct, frozen=True, eq=False):
    """n devices that an option of a request could get if all units left, and who has to leave for each."""

    rows: Rows
    """(n,) rows of the fleet"""
    place: Rows
    """(n,) the node, as a position in `Topology.order`"""
    device: Rows
    """(m,) position in `rows`, ascending"""
    unit: Rows
    """(m,) a unit that has to leave for that device"""
    shareable: bool
    """Whether one of them may serve several requests at once"""

    def distinct(self, count: int) -> int:
        """How many devices so many results need at least: one device with shares may serve all."""
        return min(count, 1) if self.shareable else count

    def units(self, at: int) -> Rows:
        """The units that have to leave for one device."""
        first, last = np.searchsorted(self.device, [at, at + 1])
        return self.unit[first:last]


class Bounds:
    """The bounds for the claims of one pod, or of each pod of a kind."""

    def __init__(
        self, claims: Sequence[ResourceClaim], snapshot: Snapshot, holds: Holds, *, apart: bool = False
    ) -> None:
        """`apart`: the bounds of several nodes may be added. Units on several nodes count a part on each."""
        self._snapshot, self._holds = snapshot, holds
        self._weights = holds.weights_apart if apart else holds.weights
        self._size = len(snapshot.topology.order)
        self._devices: dict[RequestKey, Devices | None] = {}
        try:
            slots = claim_shape(claims, snapshot).parsed.slots if claims else ()
        except Fatal:
            slots = ()
        if snapshot.occupancy.overcharges:
            slots = ()  # held devices draw more than their slices say
        self._needs = list(self._wanted(slots))

    def _wanted(self, slots: Sequence[Slot]) -> list[list[tuple[RequestOption, int]]]:
        """The options and the number of devices of each request; requests for the same devices are joined."""
        found: list[list[tuple[RequestOption, int]]] = []
        joined: dict[RequestKey, int] = {}
        for slot in slots:
            if any(option.admin or option.all for option in slot.options):
                continue
            if len(slot.options) > 1:
                found.append([(option, option.source.wanted) for option in slot.options])
            elif (at := joined.get(slot.options[0].key)) is not None:
                option, count = found[at][0]
                found[at] = [(option, count + slot.options[0].source.wanted)]
            else:
                joined[slot.options[0].key] = len(found)
                found.append([(slot.options[0], slot.options[0].source.wanted)])
        return found

    def of_nodes(self, copies: int = 1) -> Costs:
        """(4, N) a bound for each node that is to hold so many copies of the claims."""
        total = np.zeros((4, self._size))
        total[1] = NO_PRIORITY
        for options in self._needs:
            best = np.full((4, self._size), np.inf)
            for option, count in options:
                best = np.minimum(best, self._of_option(option, count * copies))
            total = np.maximum(total, best)
        return total

    def _of_option(self, option: RequestOption, count: int) -> Costs:
        devices = self._known(option)
        nothing = np.zeros((4, self._size))
        nothing[1] = NO_PRIORITY
        if devices is None or not count:
            return nothing
        size, n, count = self._size, len(devices.rows), devices.distinct(count)
        weights, found = self._weights, np.empty((4, size))
        highest = np.full(n, float(NO_PRIORITY))
        np.maximum.at(highest, devices.device, weights[1][devices.unit])
        found[1] = nth_of_group(devices.place, highest, count, size)
        # A unit that keeps several devices of a node from being allocated counts once for all of them.
        keys = devices.place[devices.device] * max(len(self._holds.units), 1) + devices.unit
        _, at, often = np.unique(keys, return_inverse=True, return_counts=True)
        for number in (0, 2, 3):
            shared, alone = np.zeros(n), np.zeros(n)
            np.add.at(shared, devices.device, weights[number][devices.unit] / often[at])
            np.add.at(alone, devices.device, weights[number][devices.unit])
            found[number] = whole(
                np.maximum(
                    sums_of_group(devices.place, shared, count, size),
                    nth_of_group(devices.place, alone, count, size),
                )
            )
        return found

    def _known(self, option: RequestOption) -> Devices | None:
        if option.key not in self._devices:
            self._devices[option.key] = self._find(option)
        return self._devices[option.key]

    def _find(self, option: RequestOption) -> Devices | None:
        """The devices of an option; None if some do not belong to one node, or meet errors."""
        snapshot, holds = self._snapshot, self._holds
        fleet, current = snapshot.fleet, available(option, snapshot)
        if not current.local or current.fails:
            return None
        suitable = np.flatnonzero(current.static.suitable & ~holds.kept)
        place = snapshot.topology.place_of[fleet.codes["node"][suitable]]
        could: Mask = fits(holds.most, fleet.table, fleet.sets[suitable], fleet.draws[suitable])
        could &= place >= 0
        rows, place = suitable[could], place[could]
        device, unit = forced(holds.most, fleet.table, fleet.sets[rows], fleet.draws[rows], holds.freed)
        at_row = np.full(fleet.size, -1, dtype=np.intp)
        at_row[rows] = np.arange(len(rows))
        own = holds.alone & (holds.unit != STAYS) & (at_row[holds.rows] >= 0)
        device = np.concatenate([device, at_row[holds.rows[own]]])
        unit = np.concatenate([unit, holds.unit[own]])
        if len(device):
            device, unit = distinct_pairs(device, unit)
        return Devices(rows, place, device, unit, bool(fleet.shared[rows].any()))

    def needed(self, place: int) -> list[Pods]:
        """Sets of pods of which one has to leave, whatever is chosen, so that the claims fit on a node.

        The sets are those of the request with the fewest possible devices. One empty set if nobody is known
        to have to leave.
        """
        best: list[Pods] | None = None
        for options in self._needs:
            sets: set[Pods] = set()
            for option, count in options:
                devices = self._known(option)
                if devices is None or not count:
                    sets = {frozenset()}
                    break
                sets |= self._of_node(devices, place, devices.distinct(count))
            found = sorted(sets, key=lambda pods: (len(pods), sorted(pods)))
            if frozenset() not in sets and (best is None or len(found) < len(best)):
                best = found
        return [frozenset()] if best is None else best

    def cheapest(self, place: int, copies: int, price: Callable[[Pods], Cost]) -> Pods:
        """Pods of a node without which so many copies may fit: those of the cheapest devices, alone."""
        gone: Pods = frozenset()
        for options in self._needs:
            option, count = options[0]
            devices = self._known(option)
            if devices is not None:
                here = np.flatnonzero(devices.place == place).tolist()
                sets = sorted((self._pods(devices.units(at).tolist()) for at in here), key=price)
                gone = gone.union(*sets[: count * copies])
        return gone

    def _of_node(self, devices: Devices, place: int, count: int) -> set[Pods]:
        """The sets for an option with so many devices."""
        here = np.flatnonzero(devices.place == place).tolist()
        blocked: dict[int, int] = {}
        by_device = [devices.units(at).tolist() for at in here]
        for units in by_device:
            for unit in units:
                blocked[unit] = blocked.get(unit, 0) + 1
        every = [unit for unit, number in blocked.items() if len(here) - number < count]
        always = self._pods(every)
        return {always | self._pods(units) for units in by_device}

    def _pods(self, units: Sequence[int]) -> Pods:
        return frozenset().union(*(self._holds.units[unit] for unit in units))


def lower_bound(of_nodes: Costs, place: int) -> Cost:
    """The bound of one node as a cost."""
    violations, highest, priorities, pods = of_nodes[:, place].tolist()
    return Cost(int(violations), int(highest), int(priorities), int(pods), 0, -float("inf"))
