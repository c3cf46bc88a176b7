"""`dra-reconciler make-room`: which pods have to leave so that something fits."""

import asyncio
import sys

import click

from reconciler.analysis.making_room.planner import TRIES, make_room
from reconciler.analysis.making_room.report import as_json
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.semantics import Semantics
from reconciler.cli.common.cluster_listing import list_objects
from reconciler.cli.common.connection import Connection
from reconciler.cli.common.exits import Exit, NoAnswer, errors_as
from reconciler.cli.common.fleet_source import read_files
from reconciler.cli.common.options import (
    cluster_options,
    files_option,
    namespace_of,
    namespace_option,
    output_option,
    release_and_rules_options,
)
from reconciler.cli.common.output import console_on, echo_value, print_line
from reconciler.cli.common.progress import track_progress
from reconciler.cli.common.room_source import KINDS, Asking, Waiting, of_cluster, of_manifests
from reconciler.cli.views.making_room import print_advice


@click.command("make-room")
@click.argument("target", metavar="[NAMESPACE/]NAME")
@namespace_option
@click.option("--pod", "of_pod", is_flag=True, help="The name is that of a pod.")
@click.option("--gang", "of_gang", is_flag=True, help="The name is that of a gang.")
@click.option(
    "--priority",
    type=int,
    help="Priority to assume.  [default: that of the pod; 0 for a claim without a pod]",
)
@click.option("--moves-only", is_flag=True, help="Nobody loses a place: all that leave fit elsewhere.")
@click.option(
    "--tries",
    type=click.IntRange(min=1),
    default=TRIES,
    show_default=True,
    help="Sets of pods to try before the search gives up.",
)
@files_option(required=False)
@cluster_options
@output_option("table", "json", "yaml")
@release_and_rules_options
def command(
    target: str,
    namespace: str | None,
    of_pod: bool,
    of_gang: bool,
    priority: int | None,
    moves_only: bool,
    tries: int,
    files: tuple[str, ...],
    connection: Connection,
    output: str,
    rules: Semantics,
) -> None:
    """Find the cheapest pods to evict so that a pending claim, pod or gang fits. Writes nothing.

    Only pods of lower priority leave, whole gangs or down to their minimum. The cheapest set violates the
    fewest budgets, then spares high priorities, then is the smallest; see docs/make-room.md. Also says where
    those that leave could go. Other pending claims do not come first.
    """
    if files and connection.named:
        raise click.UsageError("Name manifests with -f, or a cluster, not both.")
    if of_pod and of_gang:
        raise click.UsageError("The name is that of a pod or of a gang, not both.")
    before, _, name = target.rpartition("/")
    if not name or "/" in before:
        raise click.UsageError(f"{target!r} is not a name: write NAME or NAMESPACE/NAME.")
    with errors_as(NoAnswer), track_progress(quiet=output != "table") as progress:
        key = ObjectKey(before or namespace_of(namespace, connection, in_cluster=not files), name)
        if files:
            world = of_manifests(read_files(files, progress), rules)
        else:
            progress.stage("reading the cluster")
            raws = asyncio.run(list_objects(KINDS, connection, volumes=True, budgets=True))
            world = of_cluster(raws, rules)
        asking = Asking(world)
        if of_gang:
            waiting = asking.gang(key, priority)
        else:
            waiting = asking.pod(key, priority) if of_pod else asking.claim(key, priority)
        if waiting.wanted is None:
            _print_message(key, waiting, output)
            sys.exit(Exit.OK if waiting.placed else Exit.FAILED)
        progress.stage("making room")
        advice = make_room(waiting.wanted, world, moves_only=moves_only, tries=tries)
    if output == "table":
        print_advice(advice, sys.stdout)
    else:
        echo_value(as_json(advice), output)
    sys.exit(Exit.OK if advice.fits else Exit.FAILED)


def _print_message(key: ObjectKey, waiting: Waiting, output: str) -> None:
    if output == "table":
        print_line(console_on(sys.stdout), f"{key}: {waiting.message}")
    else:
        echo_value({"wanted": str(key), "fits": waiting.placed, "message": waiting.message}, output)
