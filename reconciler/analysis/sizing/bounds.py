"""No smaller fleet serves a demand: what each item takes at least, and what a node supplies at most."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import ceil, gcd, lcm

import numpy as np
from msgspec import Struct

from kernels.groups import distinct
from kernels.packing import unique_rows
from kernels.types import Amounts, Codes, Mask, Rows
from reconciler.allocation.dra.budget import Fatal
from reconciler.allocation.dra.request_options import RequestOption, read_claims
from reconciler.allocation.dra.static_match import match_in_fleet
from reconciler.analysis.capacity.profiles import families
from reconciler.analysis.capacity.solver import PackingProblem, Solver
from reconciler.analysis.sizing.demand import Item
from reconciler.analysis.sizing.patterns import EmptyNode, Pattern
from reconciler.state.devices.snapshot import Snapshot
from reconciler.state.nodes.room import amounts, demand


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


class Supply:
    """The free devices of a snapshot, as what R needs can use. Counter sets in one state are packed once."""

    def __init__(self, needs: Sequence[Need], snapshot: Snapshot, solver: Solver) -> None:
        self._needs = needs
        self._solver = solver
        fleet, occupancy = snapshot.fleet, snapshot.occupancy
        suits = np.zeros((fleet.size, len(needs)), dtype=np.bool_)
        self.countable: Mask = np.ones(len(needs), dtype=np.bool_)
        """(R,) needs that no device can serve twice"""
        for at, need in enumerate(needs):
            suits[:, at] = match_in_fleet(need.option, snapshot).suitable & occupancy.free
            self.countable[at] = not bool(fleet.shared[suits[:, at]].any())
        rows = np.flatnonzero(suits.any(axis=1))
        drawing = (fleet.sets[rows] >= 0).any(axis=1)
        whole = rows[~drawing]
        self._whole, self._whole_counts = _counted(suits[whole])
        self._suits, self._node_of = suits[whole], fleet.codes["node"][whole]
        self._states, self._state_of, self._node_of_set = _states(suits, rows[drawing], snapshot)
        self._draws = [_draws(rows[suits[rows, at]], snapshot) for at in range(len(needs))]

    def most(self, weights: Sequence[int]) -> int:
        """An upper bound on the weight of all that can be placed.

        weights (R,)  weight of one device of each need, not negative; 0 for needs that are not countable
        """
        worth = np.array(weights, dtype=np.int64)
        found = int(_worth(self._whole, worth) @ self._whole_counts)
        found += sum(state.sets * self._packed(state, worth) for state in self._states)
        return found

    def least(self, need: int, amounts: Amounts) -> int:
        """The least amount that a device of one need takes; 0 if a device draws from no set, or none suits.

        amounts (P,)  of each draw of the fleet
        """
        draws = self._draws[need]
        return int(amounts[draws].min()) if len(draws) and (draws >= 0).all() else 0

    def copies(self, item: int) -> int | None:
        """An upper bound on how many of one item can be placed; None if nothing limits them here."""
        limits = [
            self._copies(at, need.count)
            for at, need in enumerate(self._needs)
            if need.item == item and self.countable[at] and need.count
        ]
        return min(limits, default=None)

    def _copies(self, at: int, count: int) -> int:
        """How often a need finds its devices on one node, at most."""
        single = [int(number == at) for number in range(len(self._needs))]
        nodes = np.concatenate([self._node_of[self._suits[:, at]], self._node_of_set])
        if count == 1 or (nodes < 0).any():  # several nodes may reach a device
            return self.most(single) // count
        of_state = [self._packed(state, np.array(single, dtype=np.int64)) for state in self._states]
        devices = np.concatenate(
            [
                np.ones(int(self._suits[:, at].sum()), dtype=np.int64),
                np.array(of_state, dtype=np.int64)[self._state_of],
            ]
        )
        on_node = np.bincount(nodes, weights=devices).astype(np.int64)
        return int((on_node // count).sum())

    def _packed(self, state: "_State", worth: Amounts) -> int:
        """The most weight of the devices of one set in a state."""
        of_devices = _worth(state.suits, worth)
        keep = np.flatnonzero(of_devices)
        if not len(keep):
            return 0
        problem = PackingProblem(state.draws[keep], state.left, tuple(of_devices[keep].tolist()))
        return self._solver.solve(problem).bound


class _State(Struct, frozen=True, eq=False):
    """Counter sets with equal free devices and equal amounts left."""

    draws: Amounts
    """(n, C) of the free devices of one set"""
    suits: Mask
    """(n, R)"""
    left: Amounts
    """(C,)"""
    sets: int


def _states(suits: Mask, rows: Rows, snapshot: Snapshot) -> tuple[list[_State], Rows, Codes]:
    """Group sets by state; (n,) the state of each set, and (n,) its node, -1 if its devices have several.

    A device that draws from several sets counts in its first one only.
    """
    fleet, left = snapshot.fleet, snapshot.occupancy.left
    if not len(rows):
        return [], np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.int32)
    at = (fleet.sets[rows] >= 0).argmax(axis=1)
    sets, draws = fleet.sets[rows, at], fleet.draws[rows, at]
    order = np.lexsort((draws, sets))
    rows, sets, draws = rows[order], sets[order], draws[order]
    starts = np.flatnonzero(np.append(True, sets[1:] != sets[:-1]))
    ends = np.append(starts[1:], len(sets))
    nodes = fleet.codes["node"][rows]
    lowest, highest = (each.reduceat(nodes, starts) for each in (np.minimum, np.maximum))
    states: dict[tuple[bytes, bytes, bytes], _State] = {}
    keys = []
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        own, free = suits[rows[start:end]], left[sets[start]]
        key = draws[start:end].tobytes(), own.tobytes(), free.tobytes()
        keys.append(key)
        known = states.get(key)
        states[key] = _State(fleet.table[draws[start:end]], own, free, 1 + (known.sets if known else 0))
    number = {key: at for at, key in enumerate(states)}
    state_of = np.array([number[key] for key in keys], dtype=np.intp)
    return list(states.values()), state_of, np.where(lowest == highest, lowest, -1).astype(np.int32)


def _draws(rows: Rows, snapshot: Snapshot) -> Codes:
    """The distinct draws of devices from their first set; -1 for none."""
    fleet = snapshot.fleet
    if not fleet.sets.shape[1]:
        return np.full(min(len(rows), 1), -1, dtype=np.int32)
    at = (fleet.sets[rows] >= 0).argmax(axis=1)
    return distinct(fleet.draws[rows, at])


def _counted(suits: Mask) -> tuple[Mask, Amounts]:
    """The distinct rows of a mask, and how often each occurs."""
    first, codes = unique_rows(suits.astype(np.int64))
    return suits[first], np.bincount(codes, minlength=len(first)).astype(np.int64)


def _worth(suits: Mask, weights: Amounts) -> Amounts:
    """(n,) the highest weight of the needs that each device suits."""
    return (suits * weights).max(axis=1, initial=0)


SCALE = 5040
"""Weight of a whole node: divisible by all small numbers of copies"""
MOST_JOINT = 16
"""Copies of one item whose joint placement on a node is searched for a proof"""


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
        pattern = node.fill([item], [one.count if at == item else 0 for at in range(len(items))])
        fitting, limit = pattern[item], supply.copies(item)
        if fitting < one.count and (limit is None or limit > fitting):
            limit = _proven(node, item, fitting, limit, len(items))
        copies.append(fitting)
        limits.append(limit)
    return Candidate(node, supply, tuple(copies), tuple(limits))


def _proven(node: EmptyNode, item: int, fitting: int, limit: int | None, items: int) -> int | None:
    """The limit by the joint search for one more; it only needs to be asked for few copies."""
    if not fitting:
        refusal = node.refusals.get(item)
        return 0 if refusal is not None and refusal.proven else limit
    if fitting >= MOST_JOINT:
        return limit
    more: Pattern = tuple(fitting + 1 if at == item else 0 for at in range(items))
    return fitting if node.holds(more) is False else limit


class Free(Struct, frozen=True, eq=False):
    """What the fleet can take of the demand before any node is added."""

    supply: Supply
    nothing: frozenset[int]
    """Items of which the fleet cannot take even one, proven"""
    room: dict[str, int] | None
    """Resource of nodes -> free amount of all nodes; None if a node does not say"""
    pods: tuple[int | None, ...]
    """How many pods of each item the nodes have room for, whatever devices they need; None for any number"""

    def copies(self, item: int) -> int | None:
        """An upper bound on how many of an item the fleet can take."""
        if item in self.nothing:
            return 0
        limits = [limit for limit in (self.pods[item], self.supply.copies(item)) if limit is not None]
        return min(limits, default=None)


def least_cost(
    items: Sequence[Item], needs: Sequence[Need], candidates: Sequence[Candidate], free: Free
) -> Fraction:
    """No nodes of these shapes that hold the demand, together with the fleet, cost less."""
    found = Fraction(0)
    for item, one in enumerate(items):
        taken = free.copies(item)
        limits = [candidate.at_most[item] for candidate in candidates]
        if taken is None or any(limit is None for limit in limits):
            continue
        density = max(Fraction(limit or 0) / c.cost for limit, c in zip(limits, candidates, strict=True))
        found = max(found, _ratio(one.count - taken, density))
    for weights in _weights(items, needs, candidates):
        worth = _worth_of(items, needs, weights) - free.supply.most(weights)
        if worth > 0:
            density = max(Fraction(one.supply.most(weights)) / one.cost for one in candidates)
            found = max(found, _ratio(worth, density))
    found = max([found, *_by_room(items, candidates, free)])
    unit = _unit([one.cost for one in candidates])
    return ceil(found / unit) * unit


def _ratio(amount: int, density: Fraction) -> Fraction:
    """The cost of an amount; 0 where no shape holds any of it, so that the demand cannot be met anyway."""
    return Fraction(amount) / density if density and amount > 0 else Fraction(0)


def _unit(costs: Sequence[Fraction]) -> Fraction:
    """The largest amount of which all costs are multiples."""
    return Fraction(gcd(*(one.numerator for one in costs)), lcm(*(one.denominator for one in costs)))


def _worth_of(items: Sequence[Item], needs: Sequence[Need], weights: Sequence[int]) -> int:
    return sum(items[need.item].count * need.count * w for need, w in zip(needs, weights, strict=True))


def _weights(
    items: Sequence[Item], needs: Sequence[Need], candidates: Sequence[Candidate]
) -> Iterator[tuple[int, ...]]:
    """Weights of one device of each need. Any are valid; these are likely to give a high bound."""
    countable = np.logical_and.reduce([one.supply.countable for one in candidates])
    largest = [max(one.copies[item] for one in candidates) for item in range(len(items))]
    anchors = _anchors(needs, countable.tolist())
    order = sorted(anchors, key=lambda item: largest[item])
    seen: set[tuple[int, ...]] = set()
    for number in range(1, len(order) + 1):
        top = set(order[:number])
        for alike in (False, True):
            weights = [0] * len(needs)
            for item in top:
                at = anchors[item]
                part = 1 if alike else SCALE // max(largest[item], 1)
                weights[at] = part if alike else part // max(needs[at].count, 1)
            seen.add(tuple(weights))
        seen.add(tuple(int(bool(countable[at]) and need.item in top) for at, need in enumerate(needs)))
    for one in candidates:
        seen.update(_by_counter(needs, countable.tolist(), one))
    yield from sorted(seen)


def _anchors(needs: Sequence[Need], countable: Sequence[bool]) -> dict[int, int]:
    """Item -> its countable need of most devices."""
    found: dict[int, int] = {}
    for at, need in enumerate(needs):
        known = found.get(need.item)
        if countable[at] and need.count and (known is None or need.count > needs[known].count):
            found[need.item] = at
    return found


def _by_counter(
    needs: Sequence[Need], countable: Sequence[bool], one: Candidate
) -> Iterator[tuple[int, ...]]:
    """For each counter family: the least amount that a device of each need draws of it."""
    fleet = one.node.snapshot.fleet
    if not len(fleet.set_columns):
        return
    names, of_counter = families(fleet.set_columns[0].scale)
    if any(columns.scale != fleet.set_columns[0].scale for columns in fleet.set_columns):
        return
    draws = np.zeros((len(fleet.table), len(names)), dtype=np.int64)
    for counter, family in enumerate(of_counter):
        draws[:, family] += fleet.table[:, counter]
    for family in range(len(names)):
        weights = [one.supply.least(at, draws[:, family]) if countable[at] else 0 for at in range(len(needs))]
        if any(weights):
            yield tuple(weights)


def _by_room(items: Sequence[Item], candidates: Sequence[Candidate], free: Free) -> Iterator[Fraction]:
    """Bounds by CPU, memory and other resources that pods request of their nodes."""
    if free.room is None:
        return
    wanted: dict[str, int] = {}
    for item in items:
        for name, amount in demand(item.unit.pod).items() if item.unit.pod is not None else ():
            wanted[name] = wanted.get(name, 0) + amount * item.count
    offers = [amounts(one.node.shape.node.status.allocatable) for one in candidates]
    if not all(offers):
        return
    for name, amount in wanted.items():
        density = max(offer.get(name, 0) / one.cost for offer, one in zip(offers, candidates, strict=True))
        if density:
            yield _ratio(amount - free.room.get(name, 0), Fraction(density))
