"""The shapes of nodes that could be added, and what fits on an empty node of each, as the allocator says."""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from math import prod

from msgspec import Struct

from reconciler.allocation.alignment.deciding import decide
from reconciler.analysis.sizing.demand import Item, place
from reconciler.analysis.whatif.question import Unit
from reconciler.analysis.world import NoFit, world_of
from reconciler.api.objects.claims import DeviceClass
from reconciler.api.objects.core import Node
from reconciler.api.objects.meta import PoolID
from reconciler.api.objects.plan import Granted, Reason
from reconciler.api.objects.quantity import ZERO
from reconciler.api.objects.semantics import Semantics
from reconciler.api.objects.slices import ResourceSlice
from reconciler.errors import Rejected
from reconciler.state.devices.snapshot import Snapshot
from reconciler.state.nodes.labels import CLOSING
from reconciler.state.pods.terms import minds_others

INSTANCE_TYPE = "node.kubernetes.io/instance-type"


class Shape(Struct, frozen=True, eq=False):
    """A node that could be added, as often as needed."""

    name: str
    """Of the node that serves as the template"""
    node: Node
    slices: tuple[ResourceSlice, ...]
    """Those that belong to this node alone"""
    cost: Fraction = Fraction(1)
    """What one node costs, in any unit"""

    @property
    def devices(self) -> int:
        """How many devices one node publishes; partitions count, too."""
        return sum(len(one.spec.devices) for one in self.slices)

    @property
    def instance_type(self) -> str:
        """The label for it; empty without one."""
        return self.node.metadata.labels.get(INSTANCE_TYPE, "")


def shape_of(node: Node, slices: Iterable[ResourceSlice], cost: Fraction = Fraction(1)) -> Shape:
    """A node of the fleet as a template: ready and not cordoned, whatever it is now.

    `slices` are those of all nodes. Devices that other nodes reach, too, do not come with a new node.
    """
    name = node.key.name
    spec = node.spec.model_copy(
        update={
            "unschedulable": None,
            "taints": tuple(taint for taint in node.spec.taints if taint.key not in CLOSING),
        }
    )
    status = node.status.model_copy(update={"conditions": ()})
    own = tuple(_alone(name, slices))
    return Shape(name, node.model_copy(update={"spec": spec, "status": status}), own, cost)


def _alone(node: str, slices: Iterable[ResourceSlice]) -> Iterator[ResourceSlice]:
    """The newest slices of the node's pools, each pool as if the node had it alone.

    A pool that the fleet cannot use on this node cannot be used there, either.
    """
    pools: dict[PoolID, list[ResourceSlice]] = {}
    for one in slices:
        pools.setdefault(one.pool_id, []).append(one)
    for found in pools.values():
        own = [one for one in found if one.spec.node_name == node]
        generation = max((one.spec.pool.generation for one in own), default=0)
        own = [one for one in own if one.spec.pool.generation == generation]
        peers = [one for one in found if one.spec.pool.generation == generation]
        counts = {one.spec.pool.resource_slice_count for one in peers}
        newest = generation == max(one.spec.pool.generation for one in found)
        usable = counts == {len(own)} or (newest and counts == {len(peers)})
        complete = {one.spec.pool.resource_slice_count for one in own} == {len(own)}
        for one in own:
            count = len(own) + (not usable) if usable or complete else one.spec.pool.resource_slice_count
            pool = replace(one.spec.pool, resource_slice_count=count)
            same = pool == one.spec.pool
            yield one if same else one.model_copy(update={"spec": replace(one.spec, pool=pool)})


def distinct_shapes(nodes: Sequence[Node], slices: Sequence[ResourceSlice]) -> Iterator[Shape]:
    """One shape for each kind of node with devices: nodes are alike if they offer and publish as much."""
    by_node: dict[str, list[ResourceSlice]] = {}
    of_pool: dict[PoolID, list[ResourceSlice]] = {}
    for one in slices:
        of_pool.setdefault(one.pool_id, []).append(one)
        if one.spec.node_name:
            by_node.setdefault(one.spec.node_name, []).append(one)
    seen: set[Hashable] = set()
    for node in sorted(nodes, key=lambda node: node.key):
        own = by_node.get(node.key.name)
        if not own:
            continue
        shape = shape_of(node, [one for pool in {one.pool_id: None for one in own} for one in of_pool[pool]])
        likeness = _likeness(node, shape.slices)
        if likeness not in seen:
            seen.add(likeness)
            yield shape


def _likeness(node: Node, slices: Sequence[ResourceSlice]) -> Hashable:
    published: dict[tuple[str, int], int] = {}
    counters: dict[tuple[str, str], int] = {}
    for one in slices:
        for device in one.spec.devices:
            size = (one.spec.driver, len(device.consumes_counters))
            published[size] = published.get(size, 0) + 1
        for set_ in one.spec.shared_counters:
            for name, counter in set_.counters.items():
                key = (one.spec.driver, name)
                counters[key] = counters.get(key, 0) + counter.get("value", ZERO).nanos
    offers = {name: amount.nanos for name, amount in node.status.allocatable.items()}
    sizes = Counter(one.pool_id for one in slices)
    unusable = sum(one.spec.pool.resource_slice_count != sizes[one.pool_id] for one in slices)
    kinds = (
        node.metadata.labels.get(INSTANCE_TYPE, ""),
        unusable,
        *map(frozenset, (published.items(), counters.items())),
    )
    return (*kinds, frozenset(offers.items()))


Pattern = tuple[int, ...]
"""How many of each item, in the order of the items"""

MOST_QUESTIONS = 400
"""Patterns that are tested to list all that a node can hold"""


class EmptyNode:
    """One node of a shape, alone in the world. The allocator itself tries what fits on it."""

    def __init__(
        self,
        shape: Shape,
        items: Sequence[Item],
        classes: Iterable[DeviceClass],
        rules: Semantics,
        steps: int,
    ) -> None:
        self.shape = shape
        self._items = items
        self._world = world_of([shape.node, *shape.slices, *classes], rules, may_suppose=True)
        self._trial, self._steps = self._world.trial(), steps
        self.snapshot: Snapshot = self._trial.snapshot
        """Of the empty node"""
        self._filled: dict[tuple[Pattern, Pattern], Pattern] = {}
        self._answers: dict[Pattern, bool | None] = {}
        self.refusals: dict[int, NoFit] = {}
        """Item -> why not even one fits"""

    def fill(self, order: Sequence[int], left: Sequence[int]) -> Pattern:
        """Place as many of each item as fit and are left, one item after another in this order."""
        key = tuple(order), tuple(left)
        if key not in self._filled:
            self._filled[key] = self._fill(order, left)
        return self._filled[key]

    def _fill(self, order: Sequence[int], left: Sequence[int]) -> Pattern:
        number = 0
        found = [0] * len(self._items)
        for item in order:
            if item in self.refusals:
                continue
            while found[item] < left[item]:
                number += 1
                refused = place(self._items[item].copy(number), self._trial, self._steps)
                if refused is not None:
                    if not any(found):
                        self.refusals[item] = refused
                    break
                found[item] += 1
        self._trial.back_to(0)
        pattern = tuple(found)
        self._answers[pattern] = True
        return pattern

    def holds(self, pattern: Pattern) -> bool | None:
        """Whether the node can hold all of a pattern at once; None if the search gave up."""
        if pattern not in self._answers:
            order = [item for item, count in enumerate(pattern) if count]
            if self.fill(order, pattern) == pattern:  # by far the fastest, where it succeeds
                return True
            units, number = [], 0
            for item in order:
                for _ in range(pattern[item]):
                    number += 1
                    units.append(self._items[item].copy(number))
            self._answers[pattern] = self._fit_together(units)
            self._trial.back_to(0)
        return self._answers[pattern]

    def _fit_together(self, units: Sequence[Unit]) -> bool | None:
        """Whether units fit on the node, wherever their devices are; None if that is not known."""
        trial, placement = self._trial, self._world.placement()
        claims = [claim for unit in units for claim in unit.claims]
        outcome = decide(claims, trial.snapshot, steps=self._steps)
        if not isinstance(outcome, Granted):
            return None if outcome.reason == Reason.GAVE_UP else False
        if trial.store.supply.counts_device_shares:
            return None  # what these devices take of the node differs from what others would
        trial.place(outcome.plans)
        for pod in (unit.pod for unit in units if unit.pod is not None):
            try:
                choice = placement.for_pod(pod, (), trial.snapshot)
            except Rejected:
                return False
            if choice.nodes is not None and not len(choice.nodes):
                return None if minds_others(pod) else False
            trial.place((), pod, trial.snapshot.topology.order[0])
        return True

    def all_patterns(self, left: Sequence[int]) -> frozenset[Pattern] | None:
        """Every pattern within `left` that the node can hold and that no other one contains.

        None if there may be too many, or if the search gave up on one.
        """
        alone = [self.fill([item], _only(item, left))[item] for item in range(len(left))]
        if prod(count + 1 for count in alone) > MOST_QUESTIONS:
            return None
        held: set[Pattern] = set()
        asked: set[Pattern] = set()
        pending: list[Pattern] = [(0,) * len(self._items)]
        while pending:
            pattern = pending.pop()
            for larger in _larger(pattern, left):
                if larger in asked:
                    continue
                asked.add(larger)
                answer = self.holds(larger)
                if answer is None:
                    return None
                if answer:
                    held.add(larger)
                    pending.append(larger)
        return frozenset(
            pattern for pattern in held if not any(larger in held for larger in _larger(pattern, left))
        )


def _only(item: int, left: Sequence[int]) -> Pattern:
    return tuple(count if at == item else 0 for at, count in enumerate(left))


def _larger(pattern: Pattern, left: Sequence[int]) -> Iterator[Pattern]:
    """The patterns with one more of one item."""
    for item, count in enumerate(pattern):
        if count < left[item]:
            yield (*pattern[:item], count + 1, *pattern[item + 1 :])
