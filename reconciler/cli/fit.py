"""`dra-reconciler fit`: how many pods of some sets would fit now, and where."""

from collections import Counter
from functools import partial
from typing import TextIO

import click

from reconciler.analysis.fitting.fitting import STEPS
from reconciler.analysis.fitting.fitting import fit as fit_sets
from reconciler.analysis.fitting.question import Fit, SetFit, as_json, question_in
from reconciler.analysis.manifest_world import world_of_manifests
from reconciler.api.objects.semantics import Semantics
from reconciler.api.objects.slices import ResourceSlice
from reconciler.cli import options
from reconciler.cli.connection import Connection
from reconciler.cli.exits import NoAnswer, errors_as, exit_unless
from reconciler.cli.input import read_first_file_and_all
from reconciler.cli.output import Console, Table, print_line, print_table, show, track_progress
from reconciler.cli.rule_options import release_and_rules_options, steps_option
from reconciler.cli.world import read_world
from reconciler.errors import counted


@click.command("fit")
@options.files_option(required=True)
@options.strict_option
@options.cluster_options_to("Answer for a cluster, not for the fleet of the files")
@options.held_room_option
@options.output_option("table", "json", "yaml")
@release_and_rules_options
@steps_option(STEPS)
def fit(files: tuple[str, ...], connection: Connection, output: str, rules: Semantics, steps: int) -> None:
    """How many pods of some sets fit together now, and on which nodes. Writes nothing.

    The first -f holds a FitRequest and the ResourceClaimTemplates that its pods name: sets of equal pods with
    counts, and what to leave out. It is answered for the named cluster, or for the fleet of all -f files.
    Pods that wait are not placed first. See docs/how-many-fit.md.

    \b
    Examples:
      dra-reconciler fit -f docs/examples/fit-request.yaml --cluster
      dra-reconciler fit -f docs/examples/fit-request.yaml -f manifests/
    """
    if connection.named and len(files) > 1:
        raise click.UsageError("With a cluster, name one -f, which holds the FitRequest.")
    with errors_as(NoAnswer), track_progress(quiet=output != "table") as progress:
        asked, found = read_first_file_and_all(files, progress)
        question = question_in(asked)
        if connection.named:
            world = read_world((), connection, rules, progress, budgets=False)
        else:
            if not any(found.of(ResourceSlice)):
                raise click.UsageError("No ResourceSlice was read: add --cluster, or more files with -f.")
            world = world_of_manifests(found, rules)
        progress.stage("placing")
        with world.trial() as trial:
            result = fit_sets(question, trial, steps=steps)
    show(output, partial(print_fit, result), partial(as_json, result))
    exit_unless(result.all_fit)


SHOWN = 5
"""Nodes that are named for each set; the others are counted"""


def print_fit(result: Fit, out: TextIO) -> None:
    """Print the verdict, then each set, then what is short."""
    console = Console(out)
    short = [one for one in result.sets if one.short is not None]
    sets = counted(len(result.sets), "pod set")
    print_line(
        console,
        f"all pods fit: {sets}"
        if not short
        else f"{len(short)} of {sets} {'does' if len(short) == 1 else 'do'} not fit as a whole",
    )
    console.print()
    table = Table(("POD SET", "FIT", "COUNT", "TOGETHER IN", "NODES"), right=("FIT", "COUNT"))
    for one in result.sets:
        domain = ", ".join(f"{key}={value}" for key, value in one.domain) or "-"
        table.add((one.name, str(one.fits), str(one.count), domain, _nodes(one)))
    print_table(console, table)
    if short:
        console.print()
    for one in short:
        assert one.short is not None
        print_line(console, f"{one.name}: {one.short.reason}: {one.short.message}")


def _nodes(one: SetFit) -> str:
    found = sorted(Counter(seat.node for seat in one.seats).items())
    named = [node if pods == 1 else f"{node} ({pods})" for node, pods in found[:SHOWN]]
    more = [f"{len(found) - SHOWN} more"] if len(found) > SHOWN else []
    return ", ".join(named + more) or "-"
