"""`dra-reconciler defragment`: which pods to move so that more of the large devices fit."""

import asyncio
import sys

import click

from reconciler.analysis.defragment import STEPS, Target
from reconciler.analysis.defragment import defragment as answer_of
from reconciler.analysis.defragment.report import as_json, evictions
from reconciler.api.objects.semantics import Semantics
from reconciler.cli.common.cluster_listing import list_objects
from reconciler.cli.common.connection import Connection
from reconciler.cli.common.exits import Exit, NoAnswer, errors_as
from reconciler.cli.common.fleet_source import read_files
from reconciler.cli.common.options import (
    cluster_options,
    files_option,
    output_option,
    release_and_rules_options,
    steps_option,
)
from reconciler.cli.common.output import echo_value
from reconciler.cli.common.progress import track_progress
from reconciler.cli.common.room_source import KINDS, of_cluster, of_manifests
from reconciler.cli.views.defragment import print_plan

DEFAULT_PERCENT = 90


@click.command()
@click.option(
    "--gain",
    metavar="NAME=N",
    help="Gain room for so many more: devices of a profile (7g.40gb=2), groups of devices with one value of "
    "an attribute (DOMAIN/NAME=2), or nodes without allocated devices (node=2).",
)
@click.option(
    "--target",
    metavar="[NAME=]PERCENT%",
    help=f"Raise what fits to this part of the most that could.  [default: {DEFAULT_PERCENT}% of the largest "
    "profile]",
)
@files_option(required=False)
@cluster_options
@output_option("table", "json", "yaml", "commands", explained="commands prints the evictions for kubectl.")
@release_and_rules_options
@steps_option(STEPS)
def defragment(
    gain: str | None,
    target: str | None,
    files: tuple[str, ...],
    connection: Connection,
    output: str,
    rules: Semantics,
    steps: int,
) -> None:
    """Find pods to move so that more large devices, groups or whole nodes are free at once. Writes nothing.

    Only pods that a controller replaces are moved, one after another, each to devices that are free at that
    moment. The fewest moves for the gain are preferred; the answer says how far a better plan could go. See
    docs/defragment.md.
    """
    if files and connection.named:
        raise click.UsageError("Name manifests with -f, or a cluster, not both.")
    if gain is not None and target is not None:
        raise click.UsageError("Set --gain or --target, not both.")
    wanted = _gain(gain) if gain is not None else _percent(target or f"{DEFAULT_PERCENT}%")
    with errors_as(NoAnswer), track_progress(quiet=output != "table") as progress:
        if files:
            world = of_manifests(read_files(files, progress), rules)
        else:
            progress.stage("reading the cluster")
            raws = asyncio.run(list_objects(KINDS, connection, volumes=True, budgets=True))
            world = of_cluster(raws, rules)
        answer = answer_of(wanted, world, steps=steps, progress=progress.stage)
    if output == "table":
        print_plan(answer, sys.stdout)
    elif output == "commands":
        for line in evictions(answer):
            click.echo(line)
    else:
        echo_value(as_json(answer), output)
    sys.exit(Exit.OK if answer.reached else Exit.FAILED)


def _gain(text: str) -> Target:
    name, _, number = text.rpartition("=")
    if not name or not number.isdecimal() or not int(number):
        raise click.UsageError(f"--gain {text}: write NAME=N with a positive number, such as 7g.40gb=2.")
    return Target(name, gain=int(number))


def _percent(text: str) -> Target:
    name, _, number = text.rpartition("=")
    number = number.removesuffix("%")
    if not number.isdecimal() or not 0 < int(number) <= 100:
        raise click.UsageError(f"--target {text}: write a percentage from 1% to 100%, such as 7g.40gb=90%.")
    return Target(name, percent=int(number))
