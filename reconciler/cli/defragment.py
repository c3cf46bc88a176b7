"""`dra-reconciler defragment`: which pods to move so that more of the large devices fit."""

import sys

import click

from reconciler.analysis.capacity.layout import fleet_layout
from reconciler.analysis.relocation.defragment import Answer
from reconciler.analysis.relocation.defragment import defragment as answer_of
from reconciler.analysis.relocation.goals import Target, for_each_kind, parse_percent
from reconciler.analysis.relocation.report import defragmentation_as_json, evictions
from reconciler.analysis.relocation.world import World
from reconciler.api.objects.semantics import Semantics
from reconciler.cli.commands.defragment import DEFAULT_PERCENT
from reconciler.cli.common.cluster_listing import list_objects
from reconciler.cli.common.connection import Connection
from reconciler.cli.common.exits import Exit, NoAnswer, errors_as
from reconciler.cli.common.fleet_source import read_files
from reconciler.cli.common.output import echo_value, remark
from reconciler.cli.common.progress import ProgressTracker, track_progress
from reconciler.cli.common.room_source import KINDS, of_cluster, of_manifests
from reconciler.cli.common.waiting import wait_for
from reconciler.cli.views.defragment import print_plan
from reconciler.errors import Rejected


def defragment(
    gain: str | None,
    target: str | None,
    files: tuple[str, ...],
    connection: Connection,
    output: str,
    rules: Semantics,
    steps: int,
) -> None:
    """Carry out the command. Its options and its help are in `cli/commands/defragment.py`."""
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
            raws = wait_for(list_objects(KINDS, connection, volumes=True, budgets=True))
            world = of_cluster(raws, rules)
        answer = _first_plan(wanted, world, steps, progress)
    if output == "table":
        print_plan(answer, sys.stdout)
    elif output == "commands":
        for line in evictions(answer):
            click.echo(line)
    else:
        echo_value(defragmentation_as_json(answer), output)
    sys.exit(Exit.OK if answer.reached else Exit.FAILED)


def _first_plan(wanted: Target, world: World, steps: int, progress: ProgressTracker) -> Answer:
    """The answer for a target; without a name, for the first kind of room that moves bring closer."""
    snapshot = world.store.snapshot()
    layout = fleet_layout(snapshot.fleet, snapshot.rules)
    targets = for_each_kind(wanted, layout)
    if not targets:
        raise NoAnswer(
            "no devices share counters, and no node has several; name what to gain, such as --gain node=1"
        )
    answers = []
    for target in targets:
        answers.append(answer_of(target, world, layout=layout, steps=steps, progress=progress.stage))
        if answers[-1].steps:
            break
        if len(targets) > 1:
            why = "no moves were found" if answers[-1].wanted else "nothing to do"
            remark(f"note: {target}: {why}")
    return next((one for one in reversed(answers) if one.steps or one.wanted), answers[0])


def _gain(text: str) -> Target:
    name, _, number = text.rpartition("=")
    if not name or not number.isdecimal() or not int(number):
        raise click.UsageError(f"--gain {text}: write NAME=N with a positive number, such as 7g.40gb=2.")
    return Target(name, gain=int(number))


def _percent(text: str) -> Target:
    try:
        return parse_percent(text)
    except Rejected as exc:
        raise click.UsageError(f"--target {exc}.") from exc
