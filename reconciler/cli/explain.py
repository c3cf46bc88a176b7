"""`dra-reconciler explain`: why a claim waits, from manifests or from a cluster."""

import asyncio
import sys

import click

from reconciler.allocation.reasons.explanation import Explanation
from reconciler.analysis.explain import explain as explain_claims
from reconciler.analysis.explain.report import as_json
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.semantics import Semantics
from reconciler.cli.common.cluster_listing import list_objects
from reconciler.cli.common.connection import Reach
from reconciler.cli.common.exits import Exit, NoAnswer, errors_as
from reconciler.cli.common.input import read_manifests, report_refused, report_warnings
from reconciler.cli.common.options import (
    cluster_options,
    files_option,
    namespace_option,
    output_option,
    release_and_rules_options,
    steps_option,
)
from reconciler.cli.common.output import echo_value
from reconciler.cli.common.plain_text import plain
from reconciler.cli.common.progress import working
from reconciler.cli.explain_question import KINDS, Situation, in_manifests, on_cluster
from reconciler.cli.views.explanation import print_explanation
from reconciler.control.offline import STEPS


@click.command(short_help="Say why a claim waits, or where it could be allocated.")
@click.argument("target", metavar="[NAMESPACE/]CLAIM")
@namespace_option
@click.option("--pod", "of_pod", is_flag=True, help="The name is a pod's: explain all its claims together.")
@files_option(required=False)
@cluster_options
@output_option("table", "json", "yaml")
@release_and_rules_options
@steps_option(STEPS)
def explain(
    target: str,
    namespace: str,
    of_pod: bool,
    files: tuple[str, ...],
    reach: Reach,
    output: str,
    rules: Semantics,
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
    quiet = output != "table"
    with working(quiet=quiet) as work:
        if files:
            bundle = read_manifests(files, work)
            report_warnings(bundle.warnings)
            report_refused(bundle.refused)
            work.stage("allocating what comes first")
            found = in_manifests(bundle, rules, key, of_pod=of_pod, steps=steps, on_question=work.step)
        else:
            work.stage("asking the cluster")
            with errors_as(NoAnswer):
                found = asyncio.run(_live(key, rules, reach, of_pod=of_pod))
    if not found.known:
        raise NoAnswer(plain(found.message))
    for note in found.notes:
        click.echo(plain(f"note: {note}"), err=True)
    if not found.questions:
        _say(key, found.message, output, allocated=found.allocated)
        sys.exit(Exit.OK if found.allocated else Exit.FAILED)
    with working(quiet=quiet) as work:
        told = [
            explain_claims(q.claims, q.world, nodes=q.nodes, answer=q.answer, steps=steps)
            for q in work.each("explaining", found.questions)
        ]
    _print(told, output)
    sys.exit(Exit.OK if any(one.allocatable for one in told) else Exit.FAILED)


async def _live(key: ObjectKey, rules: Semantics, reach: Reach, *, of_pod: bool) -> Situation:
    return await on_cluster(await list_objects(KINDS, reach), rules, key, of_pod=of_pod)


def _print(told: list[Explanation], output: str) -> None:
    if output != "table":
        echo_value([as_json(one) for one in told], output)
        return
    for number, one in enumerate(told):
        if number:
            click.echo()
        print_explanation(one, sys.stdout)


def _say(key: ObjectKey, message: str, output: str, *, allocated: bool) -> None:
    if output != "table":
        echo_value([{"name": str(key), "allocatable": allocated, "message": message}], output)
    else:
        click.echo(plain(f"{key}: {message}"))
