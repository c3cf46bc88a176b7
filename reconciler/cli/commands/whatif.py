"""The options and the help of `dra-reconciler whatif`."""

import click

from reconciler.allocation.defaults import STEPS
from reconciler.cli.common.held_room import held_room_option
from reconciler.cli.common.options import (
    cluster_options,
    files_option,
    koordinator_semantics_option,
    namespace_option,
    output_option,
    release_and_rules_options,
    steps_option,
)
from reconciler.cli.common.policy_options import (
    policy_options,
)
from reconciler.cli.common.running import runs

MAX_COPIES = 10_000
"""The largest --count"""


@click.command()
@files_option(required=False)
@cluster_options
@held_room_option
@click.option(
    "--count", type=click.IntRange(1, MAX_COPIES), help="Copies to place.  [default: as many as fit]"
)
@click.option(
    "--without",
    "without",
    multiple=True,
    metavar="[NAMESPACE/]NAME",
    help="Assume that this claim is not allocated, or that this pod with Koordinator's devices is gone.",
)
@click.option(
    "--drain", "drained", multiple=True, metavar="NODE", help="Assume that this node does not exist."
)
@click.option(
    "--add",
    "added",
    multiple=True,
    type=click.Path(exists=True, readable=True, allow_dash=True),
    metavar="FILE|DIR|-",
    help="Assume that these ResourceSlices, Nodes, DeviceClasses and Koordinator's Devices exist.",
)
@namespace_option
@output_option("table", "json", "yaml")
@release_and_rules_options
@koordinator_semantics_option(default="proposal")
@steps_option(STEPS)
@policy_options
@runs("reconciler.cli.whatif:whatif")
def whatif() -> None:
    """What-if analysis: would claims fit, where, how many copies, and which claims are lost. Writes nothing.

    Places the pending claims, the templates and the pods of the first -f, gangs as a whole: on the named
    cluster, or on the fleet of all -f files.

    Without --count, places copies until one does not fit, at most 1,000. With --drain, first moves the
    claims with devices on that node elsewhere, if possible. See docs/what-if.md.
    """
