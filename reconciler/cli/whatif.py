"""`dra-reconciler whatif`: whether and where claims would fit, how often, and which claims are lost."""

import sys
from collections.abc import Iterable, Iterator, Set
from typing import NamedTuple, TypeVar

import click
from msgspec.structs import replace

from reconciler.allocation.policies.selection import Policies
from reconciler.analysis.whatif.answering import answer
from reconciler.analysis.whatif.reading import groups_of, units_in
from reconciler.analysis.whatif.scenario import Answer, Baseline, Gang, Scenario, Unit, as_json
from reconciler.api.manifests.bundle import Bundle, storage_of
from reconciler.api.manifests.inferred_nodes import InferredNodes, infer_nodes
from reconciler.api.objects.claims import DeviceClass, ResourceClaim, ResourceClaimTemplate
from reconciler.api.objects.core import Namespace, Node, Pod
from reconciler.api.objects.meta import ApiObject, ObjectKey
from reconciler.api.objects.semantics import Semantics
from reconciler.api.objects.slices import ResourceSlice
from reconciler.api.objects.storage import STORAGE
from reconciler.cli.common.cluster_listing import list_objects
from reconciler.cli.common.connection import Connection
from reconciler.cli.common.exits import Exit, NoAnswer, errors_as
from reconciler.cli.common.fleet_source import bundle_objects, read_devices, read_files, read_valid
from reconciler.cli.common.held_room import split
from reconciler.cli.common.options import (
    namespace_of,
)
from reconciler.cli.common.output import echo_value
from reconciler.cli.common.progress import ProgressTracker, track_progress
from reconciler.cli.common.waiting import wait_for
from reconciler.cli.views.whatif import print_answer
from reconciler.errors import Rejected
from reconciler.plugins.koordinator.objects import Device
from reconciler.plugins.koordinator.rules import Rules
from reconciler.plugins.koordinator.rules import Semantics as DeviceSemantics
from reconciler.state.loading import store_of
from reconciler.state.nominations.nomination import Nomination

T = TypeVar("T", Node, Device)
KINDS = ("Node", "DeviceClass", "DeviceTaintRule", "ResourceSlice", "ResourceClaim", "Pod")


class Fleet(NamedTuple):
    """What is read of manifests or a cluster."""

    nodes: InferredNodes
    objects: list[ApiObject]
    devices: tuple[Device, ...]
    """Koordinator's"""
    held: tuple[Nomination, ...] = ()
    """Room that the leader of the cluster holds"""


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
    """Carry out the command. Its options and its help are in `cli/commands/whatif.py`."""
    if not files and not drained:
        raise click.UsageError("Nothing to analyze: name manifests with -f, or a node with --drain.")
    if not files:  # only --drain, of the cluster
        connection = connection._replace(named=True)
    with errors_as(NoAnswer):
        own = namespace_of(namespace, connection, in_cluster=connection.named) if without else ""
    freed = frozenset(_key(name, own) for name in without)
    with errors_as(NoAnswer), track_progress(quiet=output != "table") as progress:
        first = read_files(files if connection.named else files[:1], progress)
        machine_rules = Rules(DeviceSemantics(koordinator_semantics))
        units = units_in(first, machine_rules)
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
            machine_rules,
            storage,
            groups=groups_of(objects),
        )
        scenario = Scenario(units, count, freed, frozenset(drained))
        if not units and not drained:
            raise NoAnswer(f"{files[0]} has no pending claim, no template and no pod")
        progress.stage("placing")
        result = answer(scenario, baseline, steps=steps, policies=policies)
    _print(result, units, output)
    sys.exit(Exit.OK if result.fits else Exit.FAILED)


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
        devices = _last_of(one for bundle in (first, rest, more) for one in bundle.of(Device))
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
    devices = _last_of([*machines, *first.of(Device), *more.of(Device)])
    others = (one for one in listed if not isinstance(one, Node))
    return Fleet(found, [*found.nodes, *others, *extra], devices, held)


def _listed(
    units: tuple[Unit | Gang, ...], first: Bundle, connection: Connection
) -> tuple[list[ApiObject], list[Device], tuple[Nomination, ...]]:
    """Read a cluster. Only pods without claims can be placed on one that does not serve claims."""
    claims = any(unit.claims for unit in _single(units))
    again = connection._replace(quiet=True)  # the first listing says which cluster it is
    try:
        pods = [entry.raw for entry in first.entries.get(Pod.__name__, {}).values()]
        raws = wait_for(list_objects(KINDS, connection, volumes=True, asked=pods))
    except Rejected:
        if claims or not units:
            raise
        raws = wait_for(list_objects(("Node", "Pod"), again))
    listed, held = split(raws)
    try:
        machines = wait_for(list_objects(("Device",), again._replace(held_room=())))
    except Rejected:  # it does not serve them
        if units and not claims:
            raise
        machines = []
    return list(read_valid(listed)), list(read_devices(machines)), held


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


def _print(result: Answer, units: tuple[Unit | Gang, ...], output: str) -> None:
    if output == "table":
        print_answer(result, units, sys.stdout)
    else:
        echo_value(as_json(result), output)
