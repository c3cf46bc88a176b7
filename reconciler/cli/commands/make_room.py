"""The options and the help of `dra-reconciler make-room`."""

import click

from reconciler.analysis.defaults import TRIES
from reconciler.cli.common.options import (
    cluster_options,
    files_option,
    held_room_option,
    namespace_option,
    output_option,
    release_and_rules_options,
)
from reconciler.cli.common.running import runs


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
@held_room_option
@output_option("table", "json", "yaml")
@release_and_rules_options
@runs("reconciler.cli.make_room:command")
def make_room() -> None:
    """Find the cheapest pods to evict so that a pending claim, pod or gang fits. Writes nothing.

    Only pods of lower priority leave, whole gangs or down to their minimum. The cheapest set violates the
    fewest budgets, then spares high priorities, then is the smallest; see docs/make-room.md. Also says where
    those that leave could go. Other pending claims do not come first.
    """
