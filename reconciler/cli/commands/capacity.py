"""The options and the help of `dra-reconciler capacity`."""

import click

from reconciler.allocation.defaults import STEPS
from reconciler.cli.common.options import (
    cluster_options,
    contexts_option,
    files_option,
    held_room_option,
    output_option,
    release_and_rules_options,
    steps_option,
)
from reconciler.cli.common.running import runs

_PATH = click.Path(exists=True, readable=True, allow_dash=True)


@click.command()
@files_option(required=False)
@cluster_options
@contexts_option
@held_room_option
@click.option(
    "--demand",
    "demands",
    multiple=True,
    type=_PATH,
    metavar="FILE|DIR|-",
    help="What is expected: Demand documents with counts, or claims, templates and pods, each once.",
)
@click.option("--pending", is_flag=True, help="What is pending now, on the cluster or in the -f files.")
@click.option(
    "--shape",
    "shapes",
    multiple=True,
    metavar="NODE",
    help="A node of the fleet as template for new nodes.  [default: one of each kind with devices]",
)
@click.option(
    "--shape-file",
    "shape_files",
    multiple=True,
    type=_PATH,
    metavar="FILE|DIR|-",
    help="ResourceSlices, and maybe Nodes: each node in it is a template.",
)
@click.option(
    "--cost",
    "costs",
    multiple=True,
    metavar="NODE=COST",
    help="What one node of this shape costs, in any unit.  [default: 1]",
)
@output_option("table", "json", "yaml")
@release_and_rules_options
@steps_option(STEPS)
@runs("reconciler.cli.capacity:capacity")
def capacity() -> None:
    """Capacity planning: how many nodes of which shapes a demand needs. Writes nothing.

    Places the demand on the free devices of the fleet first, and the rest on new nodes: of each shape alone,
    and of a mix. The cheapest comes first, with a lower bound: no nodes of these shapes cost less. For what
    still fits on the fleet as it is, see top. With --contexts, each cluster is asked for the whole demand.
    Details: docs/fleet-size.md.
    """
