"""`dra-reconciler whatif`: whether and where claims would fit, how often, and which claims are lost."""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from typing import NamedTuple, TextIO, TypeVar

import click
from msgspec.structs import replace

from reconciler.allocation.dra.budget import STEPS
from reconciler.allocation.policies.selection import Policies
from reconciler.analysis.whatif.answering import answer
from reconciler.analysis.whatif.reading import groups_of, units_in
from reconciler.analysis.whatif.scenario import (
    Answer,
    Baseline,
    Gang,
    Limit,
    Lost,
    Placed,
    PlacedGang,
    Refused,
    Scenario,
    Unit,
    as_json,
)
from reconciler.api.manifests.bundle import Bundle, storage_of
from reconciler.api.manifests.inferred_nodes import InferredNodes, infer_nodes
from reconciler.api.objects.claims import DeviceClass, ResourceClaim, ResourceClaimTemplate
from reconciler.api.objects.core import Namespace, Node, Pod
from reconciler.api.objects.meta import ApiObject, ObjectKey
from reconciler.api.objects.semantics import Semantics
from reconciler.api.objects.slices import ResourceSlice
from reconciler.api.objects.storage import STORAGE
from reconciler.api.plugins import kinds_of_plugins
from reconciler.cli.cluster import KINDS, Connection, from_cluster, list_objects, split_held_room
from reconciler.cli.exits import NoAnswer, errors_as, exit_unless
from reconciler.cli.input import bundle_objects, read_files, read_valid
from reconciler.cli.options import fleet_options, namespace_of, namespace_option
from reconciler.cli.output import Console, Table, counted, echo_value, print_line, print_table
from reconciler.cli.progress import ProgressTracker, track_progress
from reconciler.cli.rule_options import koordinator_semantics_option, policy_options
from reconciler.errors import Rejected
from reconciler.state.nominations import Nomination
from reconciler.state.trial import store_of

MAX_COPIES = 10_000
"""The largest --count"""

T = TypeVar("T", bound=ApiObject)


class Fleet(NamedTuple):
    """What is read of manifests or a cluster."""

    nodes: InferredNodes
    objects: list[ApiObject]
    devices: tuple[ApiObject, ...]
    """Of plugins"""
    held: tuple[Nomination, ...] = ()
    """Room that the leader of the cluster holds"""


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
    freed = frozenset(_key(name, own) for name in without)
    with errors_as(NoAnswer), track_progress(quiet=output != "table") as progress:
        first = read_files(files if connection.named else files[:1], progress)
        units = units_in(first, of_plugins=True)
        more = read_files(added, progress)
        if first.refused or more.refused:
            raise NoAnswer("some objects of the first -f or of --add are invalid; fix them")
        nodes, objects, devices, held = _fleet(first, units, more, files, connection, progress)
        store = store_of(progress.each("loading objects", objects), rules)
        for one in held:
            store.nominate(one)  # the simulation holds their room on the nodes
        namespaces = tuple(one for one in objects if isinstance(one, Namespace))
        storage = tuple(one for one in objects if type(one).__name__ in STORAGE)
        baseline = Baseline(
            store,
            nodes.described,
            namespaces,
            nodes.supposed,
            devices,
            {"koordinator_semantics": koordinator_semantics},
            storage,
            groups=groups_of(objects),
        )
        scenario = Scenario(units, count, freed, frozenset(drained))
        if not units and not drained:
            raise NoAnswer(f"{files[0]} has no pending claim, no template and no pod")
        progress.stage("placing")
        result = answer(scenario, baseline, steps=steps, policies=policies)
    _print_result(result, units, output)
    exit_unless(result.fits)


def _key(name: str, namespace: str) -> ObjectKey:
    prefix, _, last = name.rpartition("/")
    return ObjectKey(prefix or namespace, last)


def _fleet(
    first: Bundle,
    units: tuple[Unit | Gang, ...],
    more: Bundle,
    files: tuple[str, ...],
    connection: Connection,
    progress: ProgressTracker,
) -> Fleet:
    """Read the fleet."""
    extra = [*more.of(ResourceSlice), *more.of(DeviceClass)]
    if not connection.named:
        rest = read_files(files[1:], progress)
        objects = [
            *bundle_objects(first),
            *(one for one in bundle_objects(rest) if not isinstance(one, Node)),
            *extra,
        ]
        pods = {unit.pod.key for unit in _single(units) if unit.pod is not None}
        objects = [one for one in objects if not _is_question(one, pods)]
        slices = [one for one in objects if isinstance(one, ResourceSlice)]
        devices = _last_of(one for bundle in (first, rest, more) for one in _of_plugins(bundle))
        if not slices and not devices:
            raise click.UsageError(
                "No ResourceSlice or Device was read: add --cluster, or more files with -f."
            )
        described = _last_of([*first.of(Node), *rest.of(Node), *more.of(Node)])
        found = infer_nodes(described, slices, [one.key.name for one in devices])
        return Fleet(
            found,
            [*found.nodes, *(one for one in objects if not isinstance(one, Node))],
            _last_of(devices),
        )
    progress.stage("reading the cluster")
    objects, machines, held = _listed(units, first, connection)
    listed = [*objects, *storage_of(first)]  # the last of a name counts
    extra += [*first.of(ResourceSlice), *first.of(DeviceClass)]
    added = [one for one in extra if isinstance(one, ResourceSlice)]
    known = [one for one in listed if isinstance(one, Node)]
    found = infer_nodes(_last_of([*known, *first.of(Node), *more.of(Node)]), added)
    if found.assumed is not None:  # a cluster lists all its nodes
        found = replace(found, nodes=found.nodes[:-1], assumed=None)
    given: list[ApiObject] = [*machines, *_of_plugins(first), *_of_plugins(more)]
    others = (one for one in listed if not isinstance(one, Node))
    return Fleet(found, [*found.nodes, *others, *extra], _last_of(given), held)


def _listed(
    units: tuple[Unit | Gang, ...], first: Bundle, connection: Connection
) -> tuple[list[ApiObject], list[ApiObject], tuple[Nomination, ...]]:
    """Read a cluster. Only pods without claims can be placed on one that does not serve claims."""
    claims = any(unit.claims for unit in _single(units))
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


def _of_plugins(bundle: Bundle) -> Iterator[ApiObject]:
    """The objects that plugins read."""
    return (one for one in bundle.objects() if type(one).__name__ in kinds_of_plugins())


def _single(units: Iterable[Unit | Gang]) -> Iterator[Unit]:
    """The units, and those of gangs."""
    for unit in units:
        yield from unit.members if isinstance(unit, Gang) else (unit,)


def _is_question(obj: ApiObject, pods: Set[ObjectKey]) -> bool:
    """Objects to place are not part of the fleet; nor are other pending claims."""
    pending = isinstance(obj, ResourceClaim) and obj.allocation is None
    return pending or isinstance(obj, ResourceClaimTemplate) or (isinstance(obj, Pod) and obj.key in pods)


def _last_of(objects: Iterable[T]) -> tuple[T, ...]:
    """The last object of each name."""
    return tuple({one.key: one for one in objects}.values())


def _print_result(result: Answer, units: tuple[Unit | Gang, ...], output: str) -> None:
    if output == "table":
        print_answer(result, units, sys.stdout)
    else:
        echo_value(as_json(result), output)


SHOWN_COPIES = 20
"""Copies to list with their devices; for further copies, only the nodes are counted"""


def print_answer(answer: Answer, units: Sequence[Unit | Gang], out: TextIO) -> None:
    """Print the verdict, then the placements, then the lost claims."""
    console = Console(out)
    for line in _verdict(answer, units):
        print_line(console, line)
    for line in _gangs(answer.gangs):
        print_line(console, line)
    shown = [one for one in answer.placed if one.copy <= SHOWN_COPIES]
    if shown:
        console.print()
        print_table(console, _placements(shown))
    if len(answer.placed) > len(shown):
        nodes = Counter(one.node or "no node" for one in answer.placed[len(shown) :])
        print_line(
            console, f"and on: {', '.join(f'{node} ({count})' for node, count in sorted(nodes.items()))}"
        )
    if answer.lost:
        console.print()
        print_table(console, _losses(answer.lost))
    if answer.freed:
        print_line(console, f"assumed free: {', '.join(map(str, answer.freed))}")


def _verdict(answer: Answer, units: Sequence[Unit | Gang]) -> Iterator[str]:
    names = ", ".join(unit.name for unit in units)
    match answer.limit:
        case Limit.NOTHING:
            pass
        case Limit.ASKED:
            yield f"fits: {names}" if answer.copies == 1 else f"fits {answer.copies} times: {names}"
        case Limit.BOUND:
            yield f"fits at least {answer.copies} times: {names}"
        case _ if answer.copies and not answer.asked:
            yield f"fits {_times(answer.copies)}: {names}"
        case _ if answer.asked and answer.asked > 1:
            yield f"does not fit: {answer.copies} of {answer.asked} copies: {names}"
        case _:
            yield f"does not fit: {names}"
    if answer.refused is not None:
        verdict = "may fit" if answer.limit is Limit.GAVE_UP else "does not fit"
        yield f"copy {answer.refused.copy} {verdict}: {answer.refused.unit}: {_why(answer.refused)}"
    if answer.lost or answer.limit is Limit.NOTHING:
        claims = sum(len(one.claims) for one in answer.lost)
        stuck = sum(len(one.claims) for one in answer.lost if isinstance(one.elsewhere, Refused))
        pods = [one for one in answer.lost if not one.claims]
        stuck += sum(isinstance(one.elsewhere, Refused) for one in pods)
        also = f" and {counted(len(pods), 'pod')} with Koordinator's devices" if pods else ""
        yield f"lost: {counted(claims, 'claim')}{also}; {stuck} cannot be allocated elsewhere"


def _gangs(gangs: Sequence[PlacedGang]) -> Iterator[str]:
    for one in gangs[:SHOWN_COPIES]:
        where = " and ".join(f"{key}={value}" for key, value in one.domain)
        nodes = counted(len({seat.node for seat in one.seats}), "node")
        left = f"; no place for {', '.join(one.left_out)}" if one.left_out else ""
        pods = counted(len(one.seats), "pod")
        yield f"copy {one.copy} of {one.unit}: {pods} on {nodes}{', all in ' if where else ''}{where}{left}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _why(refused: Refused) -> str:
    return f"{refused.reason}: {refused.message}"


def _placements(placed: Iterable[Placed]) -> Table:
    table = Table(("COPY", "CLAIM", "REQUEST", "DEVICE", "NODE"), names=2)
    for one in placed:
        for claim, request, device in one.devices:
            table.add((str(one.copy), str(claim), request, str(device), one.node or "-"))
        if not one.devices:
            table.add((str(one.copy), one.unit, "-", "-", one.node or "-"))
    return table


def _losses(lost: Iterable[Lost]) -> Table:
    table = Table(("LOST", "POD", "HOLDS NOW", "ELSEWHERE"), names=2)
    for one in lost:
        match one.elsewhere:
            case Placed(node=node, devices=devices):
                where = "\n".join([f"{device} on {node or 'no node'}" for _, _, device in devices])
            case Refused() as refused:
                where = f"nowhere: {_why(refused)}"
        pod = str(one.pod) if one.pod is not None else "-"
        claims = "\n".join(map(str, one.claims)) or "-"
        table.add((claims, pod, "\n".join(map(str, one.devices)), where))
    return table
