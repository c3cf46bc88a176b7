"""`dra-reconciler capacity`: how many nodes of which shapes a demand needs."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple, TextIO

import click
from msgspec.structs import replace

from reconciler.allocation.dra.budget import STEPS
from reconciler.analysis.manifest_world import Fleet, fleet_in
from reconciler.analysis.sizing import demand
from reconciler.analysis.sizing.answer import Option, Sizing, as_json, node_claims, node_groups
from reconciler.analysis.sizing.shapes import Shape, distinct_shapes, shape_of
from reconciler.analysis.sizing.sizing import size
from reconciler.api.manifests.bundle import Bundle
from reconciler.api.manifests.inferred_nodes import infer_nodes
from reconciler.api.objects.claims import DeviceClass
from reconciler.api.objects.core import Node, Pod
from reconciler.api.objects.meta import ApiObject, ObjectKey
from reconciler.api.objects.semantics import Semantics
from reconciler.api.objects.similar_names import instead
from reconciler.api.objects.slices import ResourceSlice
from reconciler.cli import cluster
from reconciler.cli import contexts as several
from reconciler.cli import output as printing
from reconciler.cli.connection import Connection
from reconciler.cli.exits import NoAnswer, errors_as, exit_unless
from reconciler.cli.input import read_files
from reconciler.cli.options import contexts_option, fleet_options
from reconciler.cli.world import fleet_of_cluster
from reconciler.errors import counted
from reconciler.state.nominations import NOBODY, Nominee, of_claim, own_of_all


class _Demand(NamedTuple):
    items: tuple[demand.Item, ...]
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

    def of(self, fleet: Fleet, progress: printing.ProgressTracker) -> Sizing:
        """The answer for a fleet. Raises NoAnswer if it lacks what is named."""
        objects = [*fleet.objects, *self.asked.of(DeviceClass)]
        items, gone, own = self._items(objects)
        slices = [one for one in objects if isinstance(one, ResourceSlice)]
        chosen = [_priced(one, self.costs) for one in self._shapes(fleet.nodes.nodes, slices)]
        _check_costs(self.costs, chosen)
        kept = [one for one in objects if not (isinstance(one, Pod) and one.key in gone)]
        # Room that is held for a part of the demand is free for the demand.
        held = tuple(one for one in fleet.held if one.nominee not in own)
        loading = progress.each("loading objects", kept)
        world = fleet._replace(objects=loading, held=held).world(self.rules)
        return size(items, chosen, world, steps=self.steps, progress=progress.stage)

    def _items(self, objects: Sequence[ApiObject]) -> _Demand:
        if not self.pending:
            items = demand.items_in(self.asked, self.rules)
            if not items:
                raise NoAnswer("--demand has no Demand, no pending claim, no template and no pod with claims")
            return _Demand(items)
        units = demand.pending_units(objects)
        pods = frozenset(unit.pod.key for unit in units if unit.pod is not None)
        own = own_of_all(unit.pod for unit in units if unit.pod is not None)
        own |= {of_claim(claim.key) for unit in units for claim in unit.claims}
        return _Demand(demand.items_of((unit, 1) for unit in units), pods, own)

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


NODE_CLAIMS, NODE_GROUPS = REQUESTS = ("nodeclaims", "nodegroups")
_OUTPUT = (
    "nodeclaims: the new nodes as NodeClaims of Karpenter. nodegroups: by how much each node group grows, as "
    "cluster-autoscaler asks its external provider."
)
_PATH = click.Path(exists=True, readable=True, allow_dash=True)


@click.command()
@contexts_option
@click.option(
    "--demand",
    "demands",
    multiple=True,
    type=_PATH,
    metavar="FILE|DIR|-",
    help="What is expected: Demand documents with counts, or claims, templates and pods, each once.",
)
@click.option("--pending", is_flag=True, help="What is pending now, on the cluster or in the -f files.")
@click.option(
    "--shape",
    "shapes",
    multiple=True,
    metavar="NODE",
    help="A node of the fleet as template for new nodes.  [default: one of each kind with devices]",
)
@click.option(
    "--shape-file",
    "shape_files",
    multiple=True,
    type=_PATH,
    metavar="FILE|DIR|-",
    help="ResourceSlices, and maybe Nodes: each node in it is a template.",
)
@click.option(
    "--cost",
    "costs",
    multiple=True,
    metavar="NODE=COST",
    help="What one node of this shape costs, in any unit.  [default: 1]",
)
@fleet_options("table", "json", "yaml", *REQUESTS, explained=_OUTPUT, steps=STEPS)
def capacity(
    files: tuple[str, ...],
    connection: Connection,
    contexts: tuple[str, ...],
    demands: tuple[str, ...],
    pending: bool,
    shapes: tuple[str, ...],
    shape_files: tuple[str, ...],
    costs: tuple[str, ...],
    output: str,
    rules: Semantics,
    steps: int,
) -> None:
    """Capacity planning: how many nodes of which shapes a demand needs. Writes nothing.

    Places the demand on the free devices of the fleet first, and the rest on new nodes: of each shape alone,
    and of a mix. The cheapest comes first, with a lower bound: no nodes of these shapes cost less. For what
    still fits on the fleet as it is, see top. With --contexts, each cluster is asked for the whole demand.
    Details: docs/fleet-size.md.

    \b
    Examples:
      dra-reconciler capacity --pending
      dra-reconciler capacity --demand docs/examples/demand.yaml -f manifests/
    """
    if bool(demands) == pending:
        raise click.UsageError("Name a demand: either --demand FILE, or --pending.")
    if contexts and output in REQUESTS:
        raise click.UsageError(f"-o {output} is for one cluster: leave out --contexts.")
    several.check_contexts(connection, contexts, files, output)
    prices = costs_in(costs)
    with errors_as(NoAnswer), printing.track_progress(quiet=output != "table") as progress:
        asked = _valid(read_files(demands, progress), "--demand")
        fleet = read_files(files, progress) if files else None
        more = _valid(read_files(shape_files, progress), "--shape-file")
        question = Question(asked, pending, shapes, more, prices, rules, steps)
        if not contexts:
            answer = question.of(_fleet(fleet, connection, rules, progress), progress)
    if contexts:
        _show_contexts(question, connection, contexts, output)
        return
    if output == "table":
        print_sizing(answer, sys.stdout)
    elif output in REQUESTS:
        with errors_as(NoAnswer):
            click.echo(_requests(answer, output), nl=False)
    else:
        printing.echo_value(as_json(answer), output)
    exit_unless(answer.answered)


def _requests(answer: Sizing, output: str) -> str:
    """The nodes of the cheapest option as YAML, in the form of an autoscaler. Raises Rejected."""
    best = answer.options[0] if answer.options else None
    if best is None:
        fits = answer.fits_now
        printing.remark(
            f"note: {'all fits now' if fits else 'part fits on no shape, see -o table'}; no nodes are named"
        )
        return ""
    if output == NODE_CLAIMS:
        return printing.as_documents(list(node_claims(best, answer.shapes)))
    return printing.as_documents(node_groups(best, answer.shapes))


def _show_contexts(question: Question, connection: Connection, contexts: Sequence[str], output: str) -> None:
    """Print the answers of several clusters, those in tables side by side."""
    with errors_as(NoAnswer), printing.track_progress(quiet=output != "table") as progress:
        progress.stage("reading the clusters")
        reached = [
            _answered(one, question, progress)
            for one in several.ask_each(
                connection, contexts, lambda one: cluster.list_objects(cluster.KINDS, one, volumes=True)
            )
        ]
    if output == "table":
        print_side_by_side([(one.context, one.found) for one in reached if one.found], sys.stdout)
    else:
        results = [as_json(one.found) if one.found else None for one in reached]
        printing.echo_value(several.contexts_as_json(reached, results), output)
    several.report_unreached(reached)
    exit_unless(all(one.found.answered for one in reached if one.found))


def _answered(
    reached: several.Reached[list[dict[str, Any]]], question: Question, progress: printing.ProgressTracker
) -> several.Reached[Sizing]:
    """The answer of one cluster, or why there is none."""
    if reached.found is None:
        return several.Reached(reached.context, problem=reached.problem)
    try:
        with printing.remarks_on(reached.context):
            return several.Reached(reached.context, question.of(_fleet_of_cluster(reached.found), progress))
    except NoAnswer as exc:
        return several.Reached(reached.context, problem=exc.message)


def _valid(bundle: Bundle, option: str) -> Bundle:
    """A bundle without invalid objects: with them, too few nodes could be counted."""
    if bundle.refused:
        raise NoAnswer(f"some objects of {option} are invalid; fix them")
    return bundle


def _fleet(
    fleet: Bundle | None, connection: Connection, rules: Semantics, progress: printing.ProgressTracker
) -> Fleet:
    """The manifests, or else the cluster."""
    if fleet is None:
        progress.stage("reading the cluster")
        return _fleet_of_cluster(
            cluster.from_cluster(cluster.list_objects(cluster.KINDS, connection, volumes=True))
        )
    return fleet_in(fleet, rules)


def _fleet_of_cluster(raws: Iterable[dict[str, Any]]) -> Fleet:
    fleet = fleet_of_cluster(raws)
    cluster.note_held_room(fleet.held)
    return fleet


def print_sizing(result: Sizing, out: TextIO) -> None:
    """Print the verdict, then the demand, then the options, then what each new node holds."""
    console = printing.Console(out)
    for line in _verdict(result):
        printing.print_line(console, line)
    for table in _tables(result):
        console.print()
        printing.print_table(console, table)


def _tables(result: Sizing) -> Iterator[printing.Table]:
    if result.items:
        yield _demand(result)
    if result.options:
        yield _options(result)
        yield _groups(result.options[0], result)


def print_side_by_side(answers: Sequence[tuple[str, Sizing]], out: TextIO) -> None:
    """Print the verdict for each context, then the tables of all contexts as one each."""
    console = printing.Console(out)
    for context, result in answers:
        for line in _verdict(result):
            printing.print_line(console, f"{context}: {line}")
    for table in several.side_by_side((context, list(_tables(result))) for context, result in answers):
        console.print()
        printing.print_table(console, table)


def _verdict(result: Sizing) -> Iterator[str]:
    if not result.items:
        yield "nothing is pending: no node is needed"
    elif result.fits_now:
        yield "fits now: no node is needed"
    elif result.options:
        best = result.options[0]
        proof = "proven cheapest" if best.optimal else f"the cost is at least {_number(best.at_least)}"
        yield f"add {nodes_text(best)}: {proof}"
    for one in result.items:
        if one.left and one.refused is not None:
            does = "does" if one.left == 1 else "do"
            yield (
                f"{one.left} of {one.item.count} {one.item.name} {does} not fit now: "
                f"{one.refused.reason}: {one.refused.message}"
            )
    for one in result.unserved:
        if not one.refused_by:
            yield f"{one.item.name} fits on no shape: no shape was given or found"
        for shape, why in one.refused_by.items():
            yield f"{one.item.name} does not fit on an empty {shape}: {why.reason}: {why.message}"


def nodes_text(option: Option) -> str:
    """`3 nodes like node-1, 1 node like node-7`."""
    return ", ".join(f"{counted(count, 'node')} like {name}" for name, count in option.nodes.items())


def _demand(result: Sizing) -> printing.Table:
    table = printing.Table(
        ("DEMAND", "COUNT", "FIT NOW", "LEFT", "SHAPES"), right=("COUNT", "FIT NOW", "LEFT")
    )
    for one in result.items:
        shapes = ", ".join(one.served_by) or "none"
        table.add((one.item.name, str(one.item.count), str(one.placed), str(one.left), shapes))
    return table


def _options(result: Sizing) -> printing.Table:
    table = printing.Table(
        ("ADD", "NODES", "COST", "AT LEAST", "PROVEN"), right=("NODES", "COST", "AT LEAST")
    )
    for one in result.options:
        names = ", ".join(f"{count} x {name}" for name, count in one.nodes.items())
        total = str(sum(one.nodes.values()))
        proven = "yes" if one.optimal else "no"
        table.add((names, total, _number(one.cost), _number(one.at_least), proven))
    return table


def _groups(option: Option, result: Sizing) -> printing.Table:
    table = printing.Table(("SHAPE", "NODES", "EACH HOLDS"), right=("NODES",))
    for group in option.groups:
        held = "\n".join(
            f"{count} x {one.item.name}"
            for one, count in zip(result.items, group.holds, strict=True)
            if count
        )
        table.add((group.shape, str(group.nodes), held))
    return table


def _number(value: Fraction) -> str:
    return f"{float(value):g}"
