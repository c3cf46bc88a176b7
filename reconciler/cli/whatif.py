"""`dra-reconciler whatif`: whether and where claims would fit, how often, and which claims are lost."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TextIO

import click
from msgspec.structs import replace

from reconciler.allocation.dra.budget import STEPS
from reconciler.allocation.policies.selection import Policies
from reconciler.analysis.manifest_world import Fleet, fleet_of_manifests, last_of, of_plugins, single
from reconciler.analysis.whatif import simulation
from reconciler.analysis.whatif.answering import answer
from reconciler.analysis.whatif.question import Gang, Scenario, Unit, units_in
from reconciler.api.manifests.bundle import Bundle, storage_of
from reconciler.api.manifests.inferred_nodes import infer_nodes
from reconciler.api.objects.claims import DeviceClass
from reconciler.api.objects.core import Node, Pod
from reconciler.api.objects.meta import ApiObject, ObjectKey
from reconciler.api.objects.semantics import Semantics
from reconciler.api.objects.slices import ResourceSlice
from reconciler.api.plugins import kinds_of_plugins
from reconciler.cli import output as printing
from reconciler.cli.cluster import KINDS, from_cluster, list_objects, split_held_room
from reconciler.cli.connection import Connection
from reconciler.cli.exits import NoAnswer, errors_as, exit_unless
from reconciler.cli.input import read_files, read_valid
from reconciler.cli.options import fleet_options, namespace_of, namespace_option
from reconciler.cli.rule_options import koordinator_semantics_option, policy_options
from reconciler.errors import Rejected, counted
from reconciler.state.nominations import Nomination

MAX_COPIES = 10_000
"""The largest --count"""


@click.command()
@click.option(
    "--count", type=click.IntRange(1, MAX_COPIES), help="Copies to place.  [default: as many as fit]"
)
@click.option(
    "--without",
    "without",
    multiple=True,
    metavar="[NAMESPACE/]NAME",
    help="Assume that this claim is not allocated, or that this pod with Koordinator's devices is gone.",
)
@click.option(
    "--drain", "drained", multiple=True, metavar="NODE", help="Assume that this node does not exist."
)
@click.option(
    "--add",
    "added",
    multiple=True,
    type=click.Path(exists=True, readable=True, allow_dash=True),
    metavar="FILE|DIR|-",
    help="Assume that these ResourceSlices, Nodes, DeviceClasses and Koordinator's Devices exist.",
)
@namespace_option
@koordinator_semantics_option(default="proposal")
@policy_options
@fleet_options("table", "json", "yaml", steps=STEPS, with_files=True)
def whatif(
    files: tuple[str, ...],
    connection: Connection,
    count: int | None,
    without: tuple[str, ...],
    drained: tuple[str, ...],
    added: tuple[str, ...],
    namespace: str | None,
    output: str,
    rules: Semantics,
    koordinator_semantics: str,
    steps: int,
    policies: Policies,
) -> None:
    """What-if analysis: would claims fit, where, how many copies, and which claims are lost. Writes nothing.

    Places the pending claims, the templates and the pods of the first -f, gangs as a whole: on the named
    cluster, or on the fleet of all -f files.

    Without --count, places copies until one does not fit, at most 1,000. With --drain, first moves the
    claims with devices on that node elsewhere, if possible. See docs/what-if.md.

    \b
    Examples:
      dra-reconciler whatif -f claim.yaml --cluster
      dra-reconciler whatif --drain node-17
    """
    if not files and not drained:
        raise click.UsageError("Nothing to analyze: name manifests with -f, or a node with --drain.")
    if not files:  # only --drain, of the cluster
        connection = connection._replace(named=True)
    with errors_as(NoAnswer):
        own = namespace_of(namespace, connection, in_cluster=connection.named) if without else ""
    freed = frozenset(ObjectKey.parse(name, own) for name in without)
    with errors_as(NoAnswer), printing.track_progress(quiet=output != "table") as progress:
        first = read_files(files if connection.named else files[:1], progress)
        units = units_in(first, rules, of_plugins=True)
        more = read_files(added, progress)
        if first.refused or more.refused:
            raise NoAnswer("some objects of the first -f or of --add are invalid; fix them")
        fleet = _fleet(first, units, more, files, connection, progress)
        world = fleet._replace(objects=progress.each("loading objects", fleet.objects)).world(rules)
        scenario = Scenario(units, count, freed, frozenset(drained))
        if not units and not drained:
            raise NoAnswer(f"{files[0]} has no pending claim, no template and no pod")
        progress.stage("placing")
        result = answer(
            scenario,
            world,
            machines=fleet.machines,
            options={"koordinator_semantics": koordinator_semantics},
            steps=steps,
            policies=policies,
        )
    printing.show(output, partial(print_answer, result, units), partial(simulation.as_json, result))
    exit_unless(result.fits)


def _fleet(
    first: Bundle,
    units: tuple[Unit | Gang, ...],
    more: Bundle,
    files: tuple[str, ...],
    connection: Connection,
    progress: printing.ProgressTracker,
) -> Fleet:
    """Read the fleet."""
    if not connection.named:
        fleet = fleet_of_manifests(first, read_files(files[1:], progress), more, units)
        if not fleet.machines and not any(isinstance(one, ResourceSlice) for one in fleet.objects):
            raise click.UsageError(
                "No ResourceSlice or Device was read: add --cluster, or more files with -f."
            )
        return fleet
    progress.stage("reading the cluster")
    objects, machines, held = _listed(units, first, connection)
    listed = [*objects, *storage_of(first)]  # the last of a name counts
    extra = [
        one for given in (more, first) for kind in (ResourceSlice, DeviceClass) for one in given.of(kind)
    ]
    added = [one for one in extra if isinstance(one, ResourceSlice)]
    known = [one for one in listed if isinstance(one, Node)]
    found = infer_nodes(last_of([*known, *first.of(Node), *more.of(Node)]), added, are_new=True)
    if found.assumed is not None:  # a cluster lists all its nodes
        found = replace(found, nodes=found.nodes[:-1], assumed=None)
    devices: list[ApiObject] = [*machines, *of_plugins(first), *of_plugins(more)]
    others = (one for one in listed if not isinstance(one, Node))
    return Fleet(found, [*found.described, *others, *extra], last_of(devices), held)


def _listed(
    units: tuple[Unit | Gang, ...], first: Bundle, connection: Connection
) -> tuple[list[ApiObject], list[ApiObject], tuple[Nomination, ...]]:
    """Read a cluster. Only pods without claims can be placed on one that does not serve claims."""
    claims = any(unit.claims for unit in single(units))
    again = connection._replace(quiet=True)  # the first listing says which cluster it is
    try:
        pods = [entry.raw for entry in first.entries.get(Pod.__name__, {}).values()]
        raws = from_cluster(list_objects(KINDS, connection, volumes=True, asked=pods))
    except Rejected:
        if claims or not units:
            raise
        raws = from_cluster(list_objects(("Node", "Pod"), again))
    listed, held = split_held_room(raws)
    try:
        machines = from_cluster(list_objects(kinds_of_plugins(), again._replace(held_room=())))
    except Rejected:  # it does not serve them
        if units and not claims:
            raise
        machines = []
    return list(read_valid(listed)), list(read_valid(machines)), held


SHOWN_COPIES = 20
"""Copies to list with their devices; for further copies, only the nodes are counted"""


def print_answer(answer: simulation.Answer, units: Sequence[Unit | Gang], out: TextIO) -> None:
    """Print the verdict, then the placements, then the lost claims."""
    console = printing.Console(out)
    for line in _verdict(answer, units):
        printing.print_line(console, line)
    for line in _gangs(answer.gangs):
        printing.print_line(console, line)
    shown = [one for one in answer.placed if one.copy <= SHOWN_COPIES]
    if shown:
        console.print()
        printing.print_table(console, _placements(shown))
    if len(answer.placed) > len(shown):
        nodes = Counter(one.node or "no node" for one in answer.placed[len(shown) :])
        printing.print_line(
            console, f"and on: {', '.join(f'{node} ({count})' for node, count in sorted(nodes.items()))}"
        )
    if answer.lost:
        console.print()
        printing.print_table(console, _losses(answer.lost))
    if answer.freed:
        printing.print_line(console, f"assumed free: {', '.join(map(str, answer.freed))}")


def _verdict(answer: simulation.Answer, units: Sequence[Unit | Gang]) -> Iterator[str]:
    names = ", ".join(unit.name for unit in units)
    match answer.limit:
        case simulation.Limit.NOTHING:
            pass
        case simulation.Limit.ASKED:
            yield f"fits: {names}" if answer.copies == 1 else f"fits {answer.copies} times: {names}"
        case simulation.Limit.BOUND:
            yield f"fits at least {answer.copies} times: {names}"
        case _ if answer.copies and not answer.asked:
            yield f"fits {_times(answer.copies)}: {names}"
        case _ if answer.asked and answer.asked > 1:
            yield f"does not fit: {answer.copies} of {answer.asked} copies: {names}"
        case _:
            yield f"does not fit: {names}"
    if answer.refused is not None:
        verdict = "may fit" if answer.limit is simulation.Limit.GAVE_UP else "does not fit"
        yield f"copy {answer.refused.copy} {verdict}: {answer.refused.unit}: {_why(answer.refused)}"
    if answer.lost or answer.limit is simulation.Limit.NOTHING:
        claims = sum(len(one.claims) for one in answer.lost)
        stuck = sum(len(one.claims) for one in answer.lost if isinstance(one.elsewhere, simulation.Refused))
        pods = [one for one in answer.lost if not one.claims]
        stuck += sum(isinstance(one.elsewhere, simulation.Refused) for one in pods)
        also = f" and {counted(len(pods), 'pod')} with Koordinator's devices" if pods else ""
        yield f"lost: {counted(claims, 'claim')}{also}; {stuck} cannot be allocated elsewhere"


def _gangs(gangs: Sequence[simulation.PlacedGang]) -> Iterator[str]:
    for one in gangs[:SHOWN_COPIES]:
        where = " and ".join(f"{key}={value}" for key, value in one.domain)
        nodes = counted(len({seat.node for seat in one.seats}), "node")
        left = f"; no place for {', '.join(one.left_out)}" if one.left_out else ""
        pods = counted(len(one.seats), "pod")
        yield f"copy {one.copy} of {one.unit}: {pods} on {nodes}{', all in ' if where else ''}{where}{left}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _why(refused: simulation.Refused) -> str:
    return f"{refused.reason}: {refused.message}"


def _placements(placed: Iterable[simulation.Placed]) -> printing.Table:
    table = printing.Table(("COPY", "CLAIM", "REQUEST", "DEVICE", "NODE"), names=2)
    for one in placed:
        for claim, request, device in one.devices:
            table.add((str(one.copy), str(claim), request, str(device), one.node or "-"))
        if not one.devices:
            table.add((str(one.copy), one.unit, "-", "-", one.node or "-"))
    return table


def _losses(lost: Iterable[simulation.Lost]) -> printing.Table:
    table = printing.Table(("LOST", "POD", "HOLDS NOW", "ELSEWHERE"), names=2)
    for one in lost:
        match one.elsewhere:
            case simulation.Placed(node=node, devices=devices):
                where = "\n".join([f"{device} on {node or 'no node'}" for _, _, device in devices])
            case simulation.Refused() as refused:
                where = f"nowhere: {_why(refused)}"
        pod = str(one.pod) if one.pod is not None else "-"
        claims = "\n".join(map(str, one.claims)) or "-"
        table.add((claims, pod, "\n".join(map(str, one.devices)), where))
    return table
