"""`dra-reconciler fit`: how many pods of some sets would fit now, and where."""

import sys

import click

from reconciler.analysis.fitting.fitting import fit
from reconciler.analysis.fitting.question import as_json
from reconciler.analysis.fitting.reading import question_in
from reconciler.api.objects.semantics import Semantics
from reconciler.api.objects.slices import ResourceSlice
from reconciler.cli.common.cluster_listing import list_objects
from reconciler.cli.common.connection import Connection
from reconciler.cli.common.exits import Exit, NoAnswer, errors_as
from reconciler.cli.common.fleet_source import read_first_file_and_all
from reconciler.cli.common.output import echo_value
from reconciler.cli.common.progress import track_progress
from reconciler.cli.common.room_source import KINDS, of_cluster, of_manifests
from reconciler.cli.common.waiting import wait_for
from reconciler.cli.views.fitting import print_fit


def fit_command(
    files: tuple[str, ...], connection: Connection, output: str, rules: Semantics, steps: int
) -> None:
    """Carry out the command. Its options and its help are in `cli/commands/fit.py`."""
    if connection.named and len(files) > 1:
        raise click.UsageError("With a cluster, name one -f, which holds the FitRequest.")
    with errors_as(NoAnswer), track_progress(quiet=output != "table") as progress:
        asked, found = read_first_file_and_all(files, progress)
        question = question_in(asked)
        if connection.named:
            progress.stage("reading the cluster")
            raws = wait_for(list_objects(KINDS, connection, volumes=True))
            world = of_cluster(raws, rules)
        else:
            if not any(found.of(ResourceSlice)):
                raise click.UsageError("No ResourceSlice was read: add --cluster, or more files with -f.")
            world = of_manifests(found, rules)
        progress.stage("placing")
        with world.trial() as trial:
            result = fit(question, trial, steps=steps)
    if output == "table":
        print_fit(result, sys.stdout)
    else:
        echo_value(as_json(result), output)
    sys.exit(Exit.OK if result.all_fit else Exit.FAILED)
