"""The options and the help of `dra-reconciler fit`."""

import click

from reconciler.analysis.defaults import STEPS
from reconciler.cli.common.options import (
    cluster_options_to,
    files_option,
    held_room_option,
    output_option,
    release_and_rules_options,
    steps_option,
)
from reconciler.cli.common.running import runs


@click.command("fit")
@files_option(required=True)
@cluster_options_to("Answer for a cluster, not for the fleet of the files")
@held_room_option
@output_option("table", "json", "yaml")
@release_and_rules_options
@steps_option(STEPS)
@runs("reconciler.cli.fit:fit_command")
def fit() -> None:
    """How many pods of some sets fit together now, and on which nodes. Writes nothing.

    The first -f holds a FitRequest and the ResourceClaimTemplates that its pods name: sets of equal pods with
    counts, and what to leave out. It is answered for the named cluster, or for the fleet of all -f files.
    Pods that wait are not placed first. See docs/how-many-fit.md.
    """
