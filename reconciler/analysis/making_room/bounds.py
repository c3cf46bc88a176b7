"""Lower bounds of what it costs to make room on each node, for all nodes at once. Source: MAKE-6.

Each request is looked at alone: whoever holds a device, or draws what it needs, has to leave before it can
be allocated. A bound is never above the true cost: it ignores constraints, capacities and other resources.
"""

from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct

from kernels.distinct import distinct_pairs
from kernels.fit import fits
from kernels.leaving import Weights, forced, nth_of_group, sums_of_group, whole
from kernels.types import Mask, Rows
from reconciler.allocation.dra.availability import available
from reconciler.allocation.dra.claim_shapes import claim_shape
from reconciler.allocation.dra.refusal import Fatal
from reconciler.allocation.dra.request_options import RequestKey, RequestOption, Slot
from reconciler.analysis.making_room.costs import NO_PRIORITY, Cost
from reconciler.analysis.making_room.holds import STAYS, Holds
from reconciler.analysis.making_room.units import Pods
from reconciler.api.objects.claims import ResourceClaim
from reconciler.state.devices.snapshot.snapshot import Snapshot

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
    return Cost(int(violations), int(highest), int(priorities), int(pods), -float("inf"))
