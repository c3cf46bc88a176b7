"""`dra-reconciler make-room`: which pods have to leave so that something fits."""

import sys

import click
from msgspec.structs import replace

from reconciler.analysis.relocation.make_room import make_room
from reconciler.analysis.relocation.report import advice_as_json
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.semantics import Semantics
from reconciler.cli.common.cluster_listing import list_objects
from reconciler.cli.common.connection import Connection
from reconciler.cli.common.console import Console
from reconciler.cli.common.exits import Exit, NoAnswer, errors_as
from reconciler.cli.common.fleet_source import read_files
from reconciler.cli.common.options import (
    namespace_of,
)
from reconciler.cli.common.output import echo_value, print_line
from reconciler.cli.common.progress import track_progress
from reconciler.cli.common.room_source import KINDS, Asking, Waiting, of_cluster, of_manifests
from reconciler.cli.common.waiting import wait_for
from reconciler.cli.views.making_room import print_advice


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
    """Carry out the command. Its options and its help are in `cli/commands/make_room.py`."""
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
            raws = wait_for(list_objects(KINDS, connection, volumes=True, budgets=True))
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
        world = replace(world, own=waiting.wanted.own)
        advice = make_room(waiting.wanted, world, moves_only=moves_only, tries=tries)
    if output == "table":
        print_advice(advice, sys.stdout)
    else:
        echo_value(advice_as_json(advice), output)
    sys.exit(Exit.OK if advice.fits else Exit.FAILED)


def _print_message(key: ObjectKey, waiting: Waiting, output: str) -> None:
    if output == "table":
        print_line(Console(sys.stdout), f"{key}: {waiting.message}")
    else:
        echo_value({"wanted": str(key), "fits": waiting.placed, "message": waiting.message}, output)
