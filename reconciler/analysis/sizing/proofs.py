"""Lower bounds on the cost of the nodes that a demand needs. No way to place it costs less (SIZE-1)."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import ceil, gcd, lcm

import numpy as np
from msgspec import Struct

from reconciler.analysis.capacity.families import families
from reconciler.analysis.sizing.bounds import Need, Supply
from reconciler.analysis.sizing.demand import Item
from reconciler.analysis.sizing.patterns import EmptyNode, Pattern
from reconciler.state.nodes.demand import amounts, demand

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
