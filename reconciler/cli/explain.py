"""`dra-reconciler explain`: why a claim waits, from manifests or from a cluster."""

import asyncio
import json
import sys

import click
import yaml

from reconciler.cli.funnels import print_explanation
from reconciler.cli.inputs import (
    files_option,
    gates_option,
    group_mode_option,
    read_manifests,
    report_refused,
    report_warnings,
)
from reconciler.cli.listing import list_objects
from reconciler.cli.plain import plain
from reconciler.cli.reach import Reach, cluster_options
from reconciler.cli.situation import KINDS, Situation, in_manifests, on_cluster
from reconciler.cli.working import working
from reconciler.errors import ReconcilerError
from reconciler.explain import explain as explain_claims
from reconciler.explain.explanation import Explanation
from reconciler.explain.report import as_json
from reconciler.objects.meta import ObjectKey
from reconciler.objects.semantics import Release, Semantics, with_group_modes
from reconciler.offline import STEPS

CANNOT, NO_ANSWER = 1, 2


class NoAnswer(click.ClickException):
    """There is nothing to explain, or nobody to ask."""

    exit_code = NO_ANSWER


@click.command(short_help="Say why a claim waits, or where it could be allocated.")
@click.argument("target", metavar="[NAMESPACE/]CLAIM")
@click.option("-n", "--namespace", default="default", show_default=True, help="Where NAMESPACE is not given.")
@click.option("--pod", "of_pod", is_flag=True, help="The name is a pod's: explain all its claims together.")
@files_option(required=False)
@cluster_options
@click.option(
    "-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", show_default=True
)
@click.option(
    "--semantics",
    "release",
    type=click.Choice(["1.37", "1.36"]),
    default="1.37",
    show_default=True,
    help="The Kubernetes release whose rules apply where releases differ.",
)
@gates_option()
@group_mode_option()
@click.option(
    "--steps",
    type=click.IntRange(min=1),
    default=STEPS,
    show_default=True,
    help="Devices to try for the decision on one node before giving up.",
)
def explain(
    target: str,
    namespace: str,
    of_pod: bool,
    files: tuple[str, ...],
    reach: Reach,
    output: str,
    release: Release,
    gates: frozenset[str],
    group_modes: tuple[str, ...],
    steps: int,
) -> None:
    """Say why a claim cannot be allocated: how many devices each gate leaves, what stops it, what is near.

    Looks at a cluster as it is now, or with -f at manifests, where claims and pods that come first are
    allocated first, as `allocate` does. Claims of one pod are explained together, for one node.
    """
    if files and reach.named:
        raise click.UsageError("Name manifests with -f, or a cluster, not both.")
    before, _, name = target.rpartition("/")
    if not name or "/" in before:
        raise click.UsageError(f"{target!r} names nothing: write CLAIM or NAMESPACE/CLAIM.")
    key = ObjectKey(before or namespace, name)
    rules = Semantics(release, gates, with_group_modes(group_modes))
    quiet = output != "table"
    with working(quiet=quiet) as work:
        if files:
            bundle = read_manifests(files, work)
            report_warnings(bundle.warnings)
            report_refused(bundle.refused)
            work.stage("allocating what comes first")
            found = in_manifests(bundle, rules, key, of_pod=of_pod, steps=steps, asking=work.step)
        else:
            work.stage("asking the cluster")
            try:
                found = asyncio.run(_live(key, rules, reach, of_pod=of_pod))
            except (ReconcilerError, OSError) as exc:
                raise NoAnswer(str(exc)) from exc
    if not found.known:
        raise NoAnswer(plain(found.message))
    for note in found.notes:
        click.echo(plain(f"note: {note}"), err=True)
    if not found.questions:
        _say(key, found.message, output, allocated=found.allocated)
        sys.exit(0 if found.allocated else CANNOT)
    with working(quiet=quiet) as work:
        told = [
            explain_claims(q.claims, q.world, nodes=q.nodes, answer=q.answer, steps=steps)
            for q in work.each("explaining", found.questions)
        ]
    _print(told, output)
    sys.exit(0 if any(one.allocatable for one in told) else CANNOT)


async def _live(key: ObjectKey, rules: Semantics, reach: Reach, *, of_pod: bool) -> Situation:
    return await on_cluster(await list_objects(KINDS, reach), rules, key, of_pod=of_pod)


def _print(told: list[Explanation], output: str) -> None:
    match output:
        case "json":
            click.echo(json.dumps([as_json(one) for one in told], indent=2))
        case "yaml":
            click.echo(yaml.safe_dump([as_json(one) for one in told], sort_keys=False), nl=False)
        case _:
            for number, one in enumerate(told):
                if number:
                    click.echo()
                print_explanation(one, sys.stdout)


def _say(key: ObjectKey, message: str, output: str, *, allocated: bool) -> None:
    said = {"name": str(key), "allocatable": allocated, "message": message}
    match output:
        case "json":
            click.echo(json.dumps([said], indent=2))
        case "yaml":
            click.echo(yaml.safe_dump([said], sort_keys=False), nl=False)
        case _:
            click.echo(plain(f"{key}: {message}"))
