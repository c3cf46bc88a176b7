"""What `capacity` asks about a fleet, and the answer for one fleet."""

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

import click
from msgspec.structs import replace

from reconciler.analysis.relocation.world import world_of
from reconciler.analysis.sizing.answer import Sizing
from reconciler.analysis.sizing.demand import Item, items_in, items_of, pending_units
from reconciler.analysis.sizing.patterns import Shape, distinct_shapes, shape_of
from reconciler.analysis.sizing.sizing import size
from reconciler.api.manifests.bundle import Bundle
from reconciler.api.manifests.inferred_nodes import InferredNodes, infer_nodes
from reconciler.api.objects.claims import DeviceClass
from reconciler.api.objects.core import Node, Pod
from reconciler.api.objects.meta import ApiObject, ObjectKey
from reconciler.api.objects.semantics import Semantics
from reconciler.api.objects.similar_names import instead
from reconciler.api.objects.slices import ResourceSlice
from reconciler.cli.common.exits import NoAnswer
from reconciler.cli.common.held_room import hold
from reconciler.cli.common.progress import ProgressTracker
from reconciler.state.nominations.nomination import NOBODY, Nomination, Nominee, of_claim, own_of_all


class Fleet(NamedTuple):
    """The objects of one cluster, or of manifests."""

    nodes: InferredNodes
    objects: Sequence[ApiObject]
    may_suppose: bool = False
    """Whether nodes without a Node object count"""
    held: tuple[Nomination, ...] = ()
    """Room that is held for something"""


class Answer(NamedTuple):
    """What a fleet needs."""

    result: Sizing
    shapes: Mapping[str, Shape]
    """By name"""


class _Demand(NamedTuple):
    items: tuple[Item, ...]
    pods: frozenset[ObjectKey] = frozenset()
    """Its pods on the cluster: they are not part of the fleet, because the sizing places them"""
    own: frozenset[Nominee] = NOBODY
    """For whom room may be held that it uses"""


class Question(NamedTuple):
    """The demand, and the nodes that may be added."""

    asked: Bundle
    """The demand, unless what is pending is asked for"""
    pending: bool
    shapes: tuple[str, ...]
    """Names of nodes of the fleet"""
    more: Bundle
    """Further shapes"""
    costs: Mapping[str, Fraction]
    """By shape"""
    rules: Semantics
    steps: int

    def of(self, fleet: Fleet, progress: ProgressTracker) -> Answer:
        """The answer for a fleet. Raises NoAnswer if it lacks what is named."""
        objects = [*fleet.objects, *self.asked.of(DeviceClass)]
        items, gone, own = self._items(objects)
        slices = [one for one in objects if isinstance(one, ResourceSlice)]
        chosen = [_priced(one, self.costs) for one in self._shapes(fleet.nodes.nodes, slices)]
        _check_costs(self.costs, chosen)
        kept = [one for one in objects if not (isinstance(one, Pod) and one.key in gone)]
        world = world_of(
            progress.each("loading objects", kept),
            self.rules,
            supposed=fleet.nodes.supposed,
            may_suppose=fleet.may_suppose,
        )
        # Room that is held for a part of the demand is free for the demand.
        hold((one for one in fleet.held if one.nominee not in own), world.store, world.nodes)
        result = size(items, chosen, world, steps=self.steps, progress=progress.stage)
        return Answer(result, {shape.name: shape for shape in chosen})

    def _items(self, objects: Sequence[ApiObject]) -> _Demand:
        if not self.pending:
            items = items_in(self.asked)
            if not items:
                raise NoAnswer("--demand has no Demand, no pending claim, no template and no pod with claims")
            return _Demand(items)
        units = pending_units(objects)
        pods = frozenset(unit.pod.key for unit in units if unit.pod is not None)
        own = own_of_all(unit.pod for unit in units if unit.pod is not None)
        own |= {of_claim(claim.key) for unit in units for claim in unit.claims}
        return _Demand(items_of((unit, 1) for unit in units), pods, own)

    def _shapes(self, nodes: Sequence[Node], slices: Sequence[ResourceSlice]) -> list[Shape]:
        """The shapes that are named, or one of each kind of node of the fleet."""
        known = {node.key.name: node for node in nodes}
        found = []
        for name in dict.fromkeys(self.shapes):
            if name not in known:
                raise NoAnswer(f"--shape: there is no node {name}{instead(name, sorted(known), 'nodes')}")
            found.append(shape_of(known[name], slices))
            if not found[-1].slices:
                raise NoAnswer(f"--shape: node {name} publishes no devices of its own; name another node")
        own = self.more.of(ResourceSlice)
        found += [shape_of(node, own) for node in infer_nodes(self.more.of(Node), own).nodes if own]
        return found or list(distinct_shapes(nodes, slices))


def costs_in(texts: Iterable[str]) -> dict[str, Fraction]:
    """The costs of options such as `node-1=2.5`. Raises UsageError."""
    return dict(map(_cost, texts))


def _cost(text: str) -> tuple[str, Fraction]:
    name, _, price = text.rpartition("=")
    try:
        cost = Fraction(price)
    except (ValueError, ZeroDivisionError):
        cost = Fraction(0)
    if not name or cost <= 0:
        raise click.UsageError(f"--cost {text}: write NODE=COST with a positive number, such as node-1=2.5.")
    return name, cost


def _priced(shape: Shape, costs: Mapping[str, Fraction]) -> Shape:
    return replace(shape, cost=costs[shape.name]) if shape.name in costs else shape


def _check_costs(costs: Mapping[str, Fraction], shapes: Sequence[Shape]) -> None:
    names = sorted(shape.name for shape in shapes)
    for name in sorted(costs.keys() - set(names)):
        raise NoAnswer(f"--cost: there is no shape {name}{instead(name, names, 'shapes')}")
