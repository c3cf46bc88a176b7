"""`dra-reconciler capacity`: how many nodes of which shapes a demand needs."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import click

from reconciler.analysis.making_room.world import world_of
from reconciler.analysis.sizing import Item, Shape, distinct_shapes, items_of, shape_of, size
from reconciler.analysis.sizing.reading import items_in, pending_units
from reconciler.analysis.sizing.report import as_json
from reconciler.api.manifests.bundle import Bundle
from reconciler.api.manifests.claims import Claims
from reconciler.api.manifests.inferred_nodes import InferredNodes, infer_nodes
from reconciler.api.objects.claims import DeviceClass, ResourceClaim
from reconciler.api.objects.core import Node, Pod
from reconciler.api.objects.meta import ApiObject, ObjectKey
from reconciler.api.objects.semantics import Semantics
from reconciler.api.objects.similar_names import instead
from reconciler.api.objects.slices import ResourceSlice
from reconciler.cli.common.connection import Connection
from reconciler.cli.common.exits import Exit, NoAnswer, errors_as
from reconciler.cli.common.fleet_source import bundle_objects, list_cluster, read_files
from reconciler.cli.common.output import echo_value
from reconciler.cli.common.progress import ProgressTracker, track_progress
from reconciler.cli.common.room_source import KINDS
from reconciler.cli.views.sizing import print_sizing


def capacity(
    files: tuple[str, ...],
    connection: Connection,
    demands: tuple[str, ...],
    pending: bool,
    shapes: tuple[str, ...],
    shape_files: tuple[str, ...],
    costs: tuple[str, ...],
    output: str,
    rules: Semantics,
    steps: int,
) -> None:
    """Carry out the command. Its options and its help are in `cli/commands/capacity.py`."""
    if bool(demands) == pending:
        raise click.UsageError("Name a demand: either --demand FILE, or --pending.")
    if files and connection.named:
        raise click.UsageError("Name manifests with -f, or a cluster, not both.")
    prices = dict(_price(text) for text in costs)
    with errors_as(NoAnswer), track_progress(quiet=output != "table") as progress:
        asked = _valid(read_files(demands, progress), "--demand")
        fleet = read_files(files, progress) if files else None
        nodes, objects = _fleet(fleet, asked, connection, progress)
        items, gone = _items(objects, asked, pending=pending)
        slices = [one for one in objects if isinstance(one, ResourceSlice)]
        more = _valid(read_files(shape_files, progress), "--shape-file")
        chosen = [_priced(one, prices) for one in _shapes(shapes, more, nodes.nodes, slices)]
        _check_prices(prices, chosen)
        kept = [one for one in objects if not (isinstance(one, Pod) and one.key in gone)]
        world = world_of(
            progress.each("loading objects", kept),
            rules,
            supposed=nodes.supposed,
            may_suppose=fleet is not None,
        )
        result = size(items, chosen, world, steps=steps, progress=progress.stage)
    if output == "table":
        print_sizing(result, sys.stdout)
    else:
        echo_value(as_json(result, {shape.name: shape for shape in chosen}), output)
    sys.exit(Exit.OK if result.answered else Exit.FAILED)


def _valid(bundle: Bundle, option: str) -> Bundle:
    """A bundle without invalid objects: with them, too few nodes could be counted."""
    if bundle.refused:
        raise NoAnswer(f"some objects of {option} are invalid; fix them")
    return bundle


def _fleet(
    fleet: Bundle | None, asked: Bundle, connection: Connection, progress: ProgressTracker
) -> tuple[InferredNodes, list[ApiObject]]:
    """The nodes and all objects of the fleet, with the classes of the demand."""
    if fleet is None:
        progress.stage("reading the cluster")
        listed = list(list_cluster(KINDS, connection, volumes=True))
        nodes = InferredNodes(tuple(one for one in listed if isinstance(one, Node)), (), None, ())
    else:
        claims = Claims(fleet)  # also those made from the templates of pods
        listed = [one for one in bundle_objects(fleet) if not isinstance(one, Node | Pod | ResourceClaim)]
        listed += [*fleet.of(Node), *map(claims.typed, claims.entries), *claims.pods]
        nodes = infer_nodes(fleet.of(Node), fleet.of(ResourceSlice))
    return nodes, [*listed, *asked.of(DeviceClass)]


def _items(
    objects: Sequence[ApiObject], asked: Bundle, *, pending: bool
) -> tuple[tuple[Item, ...], frozenset[ObjectKey]]:
    """The demand, and the pods of it: they are not part of the fleet, because the sizing places them."""
    if not pending:
        items = items_in(asked)
        if not items:
            raise NoAnswer("--demand has no Demand, no pending claim, no template and no pod with claims")
        return items, frozenset()
    units = pending_units(objects)
    pods = frozenset(unit.pod.key for unit in units if unit.pod is not None)
    return items_of((unit, 1) for unit in units), pods


def _shapes(
    names: Sequence[str], more: Bundle, nodes: Sequence[Node], slices: Sequence[ResourceSlice]
) -> list[Shape]:
    """The shapes that are named, or one of each kind of node of the fleet."""
    known = {node.key.name: node for node in nodes}
    found = []
    for name in dict.fromkeys(names):
        if name not in known:
            raise NoAnswer(f"--shape: there is no node {name}{instead(name, sorted(known), 'nodes')}")
        found.append(shape_of(known[name], slices))
        if not found[-1].slices:
            raise NoAnswer(f"--shape: node {name} publishes no devices of its own; name another node")
    own = more.of(ResourceSlice)
    found += [shape_of(node, own) for node in infer_nodes(more.of(Node), own).nodes if own]
    return found or list(distinct_shapes(nodes, slices))


def _price(text: str) -> tuple[str, Fraction]:
    name, _, price = text.rpartition("=")
    try:
        cost = Fraction(price)
    except (ValueError, ZeroDivisionError):
        cost = Fraction(0)
    if not name or cost <= 0:
        raise click.UsageError(f"--cost {text}: write NODE=COST with a positive number, such as node-1=2.5.")
    return name, cost


def _priced(shape: Shape, prices: dict[str, Fraction]) -> Shape:
    return replace(shape, cost=prices[shape.name]) if shape.name in prices else shape


def _check_prices(prices: dict[str, Fraction], shapes: Sequence[Shape]) -> None:
    names = sorted(shape.name for shape in shapes)
    for name in sorted(prices.keys() - set(names)):
        raise NoAnswer(f"--cost: there is no shape {name}{instead(name, names, 'shapes')}")
