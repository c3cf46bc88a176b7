"""`dra-reconciler whatif`: would it fit, where, how many more of it, and what is lost."""

import sys
from collections.abc import Iterable, Set
from dataclasses import replace

import click

from reconciler.analysis.whatif import Answer, Baseline, Scenario, Unit, answer
from reconciler.analysis.whatif.answering import STEPS
from reconciler.analysis.whatif.reading import units_in
from reconciler.analysis.whatif.report import as_json
from reconciler.api.koordinator.device import Device
from reconciler.api.manifests.bundle import Bundle
from reconciler.api.manifests.inferred_nodes import InferredNodes, infer_nodes
from reconciler.api.objects.claims import DeviceClass, ResourceClaim, ResourceClaimTemplate
from reconciler.api.objects.core import Node, Pod
from reconciler.api.objects.meta import ApiObject, ObjectKey
from reconciler.api.objects.semantics import Semantics
from reconciler.api.objects.slices import ResourceSlice
from reconciler.cli.common.connection import Reach
from reconciler.cli.common.exits import Exit, NoAnswer, errors_as
from reconciler.cli.common.fleet_source import in_bundle, list_cluster, read_files
from reconciler.cli.common.options import (
    cluster_options,
    files_option,
    namespace_option,
    output_option,
    release_and_rules_options,
    steps_option,
)
from reconciler.cli.common.output import echo_value
from reconciler.cli.common.progress import Work, working
from reconciler.cli.views.whatif import print_answer
from reconciler.state.loading import store_of

KINDS = ("Node", "DeviceClass", "DeviceTaintRule", "ResourceSlice", "ResourceClaim", "Pod")
MOST_COUNTED = 10_000


@click.command(short_help="Say whether claims would fit, if; and what would be lost.")
@files_option(required=False)
@cluster_options
@click.option(
    "--count", type=click.IntRange(1, MOST_COUNTED), help="Copies to place.  [default: as many as fit]"
)
@click.option(
    "--without", "without", multiple=True, metavar="[NAMESPACE/]CLAIM", help="As if this claim held nothing."
)
@click.option("--drain", "drained", multiple=True, metavar="NODE", help="As if this node were gone.")
@click.option(
    "--add",
    "added",
    multiple=True,
    type=click.Path(exists=True, readable=True, allow_dash=True),
    metavar="FILE|DIR|-",
    help="As if these ResourceSlices, Nodes and DeviceClasses were there.",
)
@namespace_option
@output_option("table", "json", "yaml")
@release_and_rules_options
@steps_option(STEPS)
def whatif(
    files: tuple[str, ...],
    reach: Reach,
    count: int | None,
    without: tuple[str, ...],
    drained: tuple[str, ...],
    added: tuple[str, ...],
    namespace: str,
    output: str,
    rules: Semantics,
    steps: int,
) -> None:
    """Say whether claims would fit and where, how many more of them, and what is lost. Writes nothing.

    The claims that wait in the first -f, its templates and its pods, are what is asked about. They are
    asked about the cluster that is named; or else about all that is in the -f files.

    Without --count, copies are placed until one does not fit, 1,000 at most. With --drain, claims that
    hold devices on that node are placed elsewhere first, if they can be. docs/what-if.md says more.
    """
    if not files and not drained:
        raise click.UsageError("Say what is asked about with -f, or with --drain which node is gone.")
    left_out = frozenset(_key(name, namespace) for name in without)
    with errors_as(NoAnswer), working(quiet=output != "table") as work:
        first = read_files(files if reach.named else files[:1], work)
        units = units_in(first)
        more = read_files(added, work)
        if first.refused or more.refused:
            raise NoAnswer("what is asked about, or added, was refused in part")
        nodes, objects = _world(first, units, more, files, reach, work)
        store = store_of(work.each("putting the picture together", objects), rules)
        baseline = Baseline(store, nodes.described, nodes.supposed)
        scenario = Scenario(units, count, left_out, frozenset(drained))
        if not units and not drained:
            raise NoAnswer(f"{files[0]} holds no claim that waits, no template and no pod")
        work.stage("placing")
        found = answer(scenario, baseline, steps=steps)
    _print(found, units, output)
    sys.exit(Exit.OK if found.fits else Exit.FAILED)


def _key(name: str, namespace: str) -> ObjectKey:
    before, _, last = name.rpartition("/")
    return ObjectKey(before or namespace, last)


def _world(
    first: Bundle, units: tuple[Unit, ...], more: Bundle, files: tuple[str, ...], reach: Reach, work: Work
) -> tuple[InferredNodes, list[ApiObject]]:
    """What the question is about: its nodes, and all its objects."""
    extra = [*more.of(ResourceSlice), *more.of(DeviceClass)]
    if not reach.named:
        rest = read_files(files[1:], work)
        objects = [
            *in_bundle(first),
            *(one for one in in_bundle(rest) if not isinstance(one, Node)),
            *extra,
        ]
        pods = {unit.pod.key for unit in units if unit.pod is not None}
        objects = [one for one in objects if not _asked(one, pods)]
        slices = [one for one in objects if isinstance(one, ResourceSlice)]
        if not slices:
            raise click.UsageError(
                "No ResourceSlice was read: name a cluster with --cluster, or more with -f."
            )
        described = _last_of([*first.of(Node), *rest.of(Node), *more.of(Node)])
        machines = [one.key.name for bundle in (first, rest, more) for one in bundle.of(Device)]
        found = infer_nodes(described, slices, machines)
        return found, [*found.nodes, *(one for one in objects if not isinstance(one, Node))]
    work.stage("asking the cluster")
    listed = list(list_cluster(KINDS, reach))
    extra += [*first.of(ResourceSlice), *first.of(DeviceClass)]
    added = [one for one in extra if isinstance(one, ResourceSlice)]
    there = [one for one in listed if isinstance(one, Node)]
    found = infer_nodes(_last_of([*there, *first.of(Node), *more.of(Node)]), added)
    if found.assumed is not None:  # a cluster has all its nodes
        found = replace(found, nodes=found.nodes[:-1], assumed=None)
    return found, [*found.nodes, *(one for one in listed if not isinstance(one, Node)), *extra]


def _asked(one: ApiObject, pods: Set[ObjectKey]) -> bool:
    """What is asked about is not part of the world; nor are other claims that wait."""
    waits = isinstance(one, ResourceClaim) and one.allocation is None
    return waits or isinstance(one, ResourceClaimTemplate) or (isinstance(one, Pod) and one.key in pods)


def _last_of(nodes: Iterable[Node]) -> list[Node]:
    """One of each name."""
    return list({node.key: node for node in nodes}.values())


def _print(found: Answer, units: tuple[Unit, ...], output: str) -> None:
    if output == "table":
        print_answer(found, units, sys.stdout)
    else:
        echo_value(as_json(found), output)
