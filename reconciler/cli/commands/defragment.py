"""The options and the help of `dra-reconciler defragment`."""

import click

from reconciler.allocation.defaults import STEPS
from reconciler.cli.common.options import (
    cluster_options,
    files_option,
    held_room_option,
    output_option,
    release_and_rules_options,
    steps_option,
)
from reconciler.cli.common.running import runs

DEFAULT_PERCENT = 90
"""Of each kind of room that the fleet can strand, without --gain and --target"""


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
    help="Raise what fits to this part of the most that could. Without a name: large profiles, groups on a "
    f"NUMA node or PCIe root, or whole nodes, whichever the fleet has.  [default: {DEFAULT_PERCENT}%]",
)
@files_option(required=False)
@cluster_options
@held_room_option
@output_option("table", "json", "yaml", "commands", explained="commands prints the evictions for kubectl.")
@release_and_rules_options
@steps_option(STEPS)
@runs("reconciler.cli.defragment:defragment")
def defragment() -> None:
    """Find pods to move so that more large devices, groups or whole nodes are free at once. Writes nothing.

    Only pods that a controller replaces are moved, one after another, each to devices that are free at that
    moment. The fewest moves for the gain are preferred; the answer says how far a better plan could go. See
    docs/defragment.md.
    """
