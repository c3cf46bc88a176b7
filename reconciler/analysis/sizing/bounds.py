"""No smaller fleet serves a demand: what each item takes at least, and what a node supplies at most.

Source: SIZE-1.
"""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from math import ceil, gcd, lcm

import numpy as np
from msgspec import Struct

from kernels.bounds import unique_rows
from kernels.types import Amounts, Mask
from reconciler.allocation.dra.budget import Fatal
from reconciler.allocation.dra.request_options import RequestOption, read_claims
from reconciler.allocation.dra.static_match import match_in_fleet
from reconciler.analysis.capacity.layout import families, first_sets
from reconciler.analysis.capacity.measure import PackingProblem, Solver
from reconciler.analysis.sizing.demand import Item
from reconciler.analysis.sizing.shapes import EmptyNode, Pattern
from reconciler.state.devices.readiness import offered
from reconciler.state.devices.snapshot import Snapshot
from reconciler.state.nodes.room import MOST, amounts, demand
from reconciler.state.nodes.table import Nodes

SCALE = 5040
"""Weight of a whole node: divisible by all small numbers of copies"""
MOST_JOINT = 16
"""Copies of one item whose joint placement on a node is searched for a proof"""


class Need(Struct, frozen=True):
    """A request of an item that can be counted: a number of devices, each for itself."""

    item: int
    option: RequestOption
    count: int


def needs_of(items: Sequence[Item], snapshot: Snapshot) -> tuple[Need, ...]:
    """The requests of items that take whole devices, a fixed number of them, and have no alternative."""
    found: list[Need] = []
    for number, item in enumerate(items):
        try:
            slots = read_claims(item.unit.claims, snapshot.classes, snapshot.rules).slots
        except Fatal:
            continue
        for slot in slots:
            option = slot.options[0]
            if len(slot.options) == 1 and not option.all and not option.admin:
                found.append(Need(number, option, option.source.wanted))
    return tuple(found)


class _State(Struct, frozen=True, eq=False):
    """Counter sets with equal free devices and equal amounts left."""

    draws: Amounts
    """(n, C) of the free devices of one set"""
    suits: Mask
    """(n, R)"""
    left: Amounts
    """(C,)"""
    sets: int


class Supply:
    """The free devices of a snapshot, as what R needs can use. Counter sets in one state are packed once."""

    def __init__(self, needs: Sequence[Need], snapshot: Snapshot, solver: Solver) -> None:
        self._needs, self._fleet, self._solver = needs, snapshot.fleet, solver
        fleet, free = snapshot.fleet, snapshot.occupancy.free & offered(snapshot.topology)
        self._suits: Mask = np.zeros((fleet.size, len(needs)), dtype=np.bool_)
        for at, need in enumerate(needs):
            self._suits[:, at] = match_in_fleet(need.option, snapshot).suitable & free
        self.countable: Mask = np.logical_not((self._suits & fleet.shared[:, None]).any(axis=0))
        """(R,) needs that no device can serve twice"""
        drawing = (fleet.sets >= 0).any(axis=1)
        whole = self._suits[~drawing]
        first, codes = unique_rows(whole.astype(np.int64))
        self._whole = whole[first]
        self._whole_counts = np.bincount(codes, minlength=len(first)).astype(np.int64)
        self._states = self._states_of(snapshot)

    def _states_of(self, snapshot: Snapshot) -> list[_State]:
        """Group sets by state. A device that draws from several sets counts in its first one only."""
        fleet, left, first = snapshot.fleet, snapshot.occupancy.left, first_sets(snapshot.fleet)
        rows = np.flatnonzero(self._suits.any(axis=1) & (first >= 0))
        sets, at = first[rows], (fleet.sets[rows] >= 0).argmax(axis=1) if len(rows) else rows
        draws = fleet.draws[rows, at]
        order = np.lexsort((draws, sets))
        rows, sets, draws = rows[order], sets[order], draws[order]
        states: dict[tuple[bytes, bytes, bytes], _State] = {}
        for own in np.split(np.arange(len(rows)), np.flatnonzero(np.diff(sets)) + 1) if len(rows) else ():
            suits, free = self._suits[rows[own]], left[sets[own[0]]]
            key = draws[own].tobytes(), suits.tobytes(), free.tobytes()
            known = states.get(key)
            states[key] = _State(fleet.table[draws[own]], suits, free, 1 + (known.sets if known else 0))
        return list(states.values())

    def most(self, weights: Sequence[int]) -> int:
        """An upper bound on the weight of all that can be placed.

        weights (R,)  weight of one device of each need, not negative; 0 for needs that are not countable
        """
        worth = np.array(weights, dtype=np.int64)
        found = int((self._whole * worth).max(axis=1, initial=0) @ self._whole_counts)
        for state in self._states:
            of_devices = (state.suits * worth).max(axis=1, initial=0)
            keep = np.flatnonzero(of_devices)
            if len(keep):
                problem = PackingProblem(state.draws[keep], state.left, tuple(of_devices[keep].tolist()))
                found += state.sets * self._solver.solve(problem).bound
        return found

    def copies(self, item: int) -> int | None:
        """An upper bound on how many of one item can be placed; None if nothing limits them here."""
        limits = [
            self._copies(at, need.count)
            for at, need in enumerate(self._needs)
            if need.item == item and self.countable[at] and need.count
        ]
        return min(limits, default=None)

    def _copies(self, at: int, count: int) -> int:
        """How often a need finds its devices on one node, at most. Devices that are cut up count together."""
        rows = np.flatnonzero(self._suits[:, at])
        nodes = self._fleet.codes["node"][rows]
        if count == 1 or (nodes < 0).any() or (self._fleet.sets[rows] >= 0).any():
            return self.most([int(number == at) for number in range(len(self._needs))]) // count
        return int((np.bincount(nodes) // count).sum())

    def least_by_family(self) -> Iterator[tuple[int, ...]]:
        """For each counter family: (R,) the least that a device of each need draws from its first set."""
        fleet = self._fleet
        scales = {columns.scale for columns in fleet.set_columns}
        if len(scales) != 1 or not fleet.table.size:  # nobody draws, or no pool with counters is valid
            return
        names, of_counter = families(scales.pop())
        first = first_sets(fleet)
        at = (fleet.sets >= 0).argmax(axis=1)
        drawn = np.where(first[:, None] >= 0, fleet.table[fleet.draws[np.arange(fleet.size), at]], 0)
        for family in range(len(names)):
            total = drawn[:, [counter for counter, of in enumerate(of_counter) if of == family]].sum(axis=1)
            yield tuple(
                int(total[suits].min()) if countable and suits.any() else 0
                for suits, countable in zip(self._suits.T, self.countable.tolist(), strict=True)
            )


class Candidate(Struct, frozen=True, eq=False):
    """A shape, and what is known of one empty node of it."""

    node: EmptyNode
    supply: Supply
    copies: tuple[int, ...]
    """How many of each item fit alone, one after another"""
    at_most: tuple[int | None, ...]
    """No node holds more of each item; None if that is not known"""

    @property
    def cost(self) -> Fraction:
        """Of one node."""
        return self.node.shape.cost


def candidate(node: EmptyNode, supply: Supply, items: Sequence[Item]) -> Candidate:
    """Learn what one empty node of a shape holds of each item alone."""
    copies: list[int] = []
    limits: list[int | None] = []
    for item, one in enumerate(items):
        fitting, limit = node.fill([item], _only(item, one.count, len(items)))[item], supply.copies(item)
        if fitting < one.count and (limit is None or limit > fitting):
            # The joint search may exclude one more.
            refusal = node.refusals.get(item)
            if not fitting:
                limit = 0 if refusal is not None and refusal.proven else limit
            elif fitting < MOST_JOINT and node.holds(_only(item, fitting + 1, len(items))) is False:
                limit = fitting
        copies.append(fitting)
        limits.append(limit)
    return Candidate(node, supply, tuple(copies), tuple(limits))


def _only(item: int, count: int, items: int) -> Pattern:
    return tuple(count if at == item else 0 for at in range(items))


def least_cost(
    items: Sequence[Item],
    needs: Sequence[Need],
    candidates: Sequence[Candidate],
    free: Supply,
    pods: Sequence[int | None],
    room: Mapping[str, int],
) -> Fraction:
    """No nodes of these shapes that hold the demand, together with the fleet, cost less.

    `free` are the devices of the fleet, `pods` how many of each item its nodes take at most whatever devices
    it needs (None for any number), and `room` what its nodes have of resources, see `free_room`.
    """
    found = Fraction(0)
    for item, one in enumerate(items):
        taken = min((n for n in (pods[item], free.copies(item)) if n is not None), default=None)
        limits = [candidate.at_most[item] for candidate in candidates]
        if taken is not None and all(limit is not None for limit in limits):
            density = max(Fraction(limit or 0) / c.cost for limit, c in zip(limits, candidates, strict=True))
            found = max(found, _ratio(one.count - taken, density))
    for weights in _weights(items, needs, candidates):
        whole = sum(items[need.item].count * need.count * w for need, w in zip(needs, weights, strict=True))
        worth = whole - free.most(weights)
        if worth > 0:
            found = max(found, _ratio(worth, max(one.supply.most(weights) / one.cost for one in candidates)))
    offers = [amounts(one.node.shape.node.status.allocatable) for one in candidates]
    for name, there in room.items() if all(offers) else ():
        wanted = sum(
            demand(item.unit.pod).get(name, 0) * item.count for item in items if item.unit.pod is not None
        )
        density = max(offer.get(name, 0) / one.cost for offer, one in zip(offers, candidates, strict=True))
        found = max(found, _ratio(wanted - there, Fraction(density)))
    costs = [one.cost for one in candidates]
    # The largest amount of which all costs are multiples.
    unit = Fraction(gcd(*(one.numerator for one in costs)), lcm(*(one.denominator for one in costs)))
    return ceil(found / unit) * unit


def free_room(items: Sequence[Item], nodes: Nodes) -> dict[str, int]:
    """Resource that pods request -> free amount of all nodes; empty if a node does not say what it offers."""
    free = nodes.room.free(frozenset(), but=())
    if (free >= MOST).any():
        return {}
    wanted = {name for item in items if item.unit.pod is not None for name in demand(item.unit.pod)}
    columns = {name: np.flatnonzero(nodes.room.vector({name: 1})) for name in wanted}
    return {name: int(np.maximum(free[at], 0).sum()) for name, at in columns.items()}


def pods_that_fit(item: Item, nodes: Nodes) -> int | None:
    """How many pods of an item the nodes have room for; None for a claim, and if a node does not say."""
    if item.unit.pod is None:
        return None
    free, wanted = nodes.room.free(frozenset(), but=()), nodes.room.vector(demand(item.unit.pod))
    if (free >= MOST).any() or not wanted.any():
        return None
    limited = np.flatnonzero(wanted)
    return int((np.maximum(free[limited], 0) // wanted[limited, None]).min(axis=0).sum())


def _ratio(amount: int, density: Fraction) -> Fraction:
    """The cost of an amount; 0 where no shape holds any of it, so that the demand cannot be met anyway."""
    return Fraction(amount) / density if density and amount > 0 else Fraction(0)


def _weights(
    items: Sequence[Item], needs: Sequence[Need], candidates: Sequence[Candidate]
) -> Iterator[tuple[int, ...]]:
    """Weights of one device of each need. Any are valid; these are likely to give a high bound."""
    countable = np.logical_and.reduce([one.supply.countable for one in candidates]).tolist()
    largest = [max(one.copies[item] for one in candidates) for item in range(len(items))]
    seen: set[tuple[int, ...]] = set()
    anchors: dict[int, int] = {}
    for at, need in enumerate(needs):  # of each item the countable need of most devices
        known = anchors.get(need.item)
        if countable[at] and need.count and (known is None or need.count > needs[known].count):
            anchors[need.item] = at
    top: set[int] = set()
    for item in sorted(anchors, key=lambda item: largest[item]):
        top.add(item)
        weights = [0] * len(needs)
        for one in top:
            weights[anchors[one]] = SCALE // max(largest[one], 1) // max(needs[anchors[one]].count, 1)
        seen.add(tuple(weights))
        seen.add(tuple(int(countable[at] and need.item in top) for at, need in enumerate(needs)))
    for candidate in candidates:
        for found in candidate.supply.least_by_family():
            seen.add(tuple(weight * countable[at] for at, weight in enumerate(found)))
    yield from sorted(seen)
