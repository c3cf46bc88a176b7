"""The options and the help of `dra-reconciler top`."""

import click

from reconciler.cli.common.clock import pass_clock
from reconciler.cli.common.options import (
    cluster_options,
    contexts_option,
    files_option,
    held_room_option,
    output_option,
    rules_options,
)
from reconciler.cli.common.running import runs

SORTS = ("name", "devices", "held", "allocatable", "fits")
"""Values of --sort; `cli/top.py: ORDERS` has the meaning of all but `name`"""


@click.command()
@cluster_options
@contexts_option
@held_room_option
@files_option(required=False)
@click.option(
    "--by",
    type=click.Choice(["driver", "pool", "node"]),
    help="Group lines by this.  [default: driver; node with --node]",
)
@click.option("--driver", "drivers", multiple=True, metavar="NAME", help="Show only this driver.")
@click.option("--node", "nodes", multiple=True, metavar="NAME", help="Show only this node.")
@click.option("--sort", type=click.Choice(SORTS), default="name", show_default=True)
@click.option("--once", is_flag=True, help="Print once and exit; the default without a terminal.")
@click.option(
    "--interval",
    type=click.FloatRange(min=0.1),
    default=5.0,
    show_default=True,
    help="Seconds between updates.",
)
@output_option(
    "table", "wide", "json", "yaml", explained="wide adds columns; json and yaml are printed once."
)
@click.option(
    "--koordinator",
    is_flag=True,
    help="Show Koordinator's devices instead; --driver then names a type: gpu, rdma, fpga.",
)
@click.option(
    "--demand",
    metavar="NAMESPACE/NAME",
    help="Show the learnt demand and the comparison of policies in this ConfigMap instead.",
)
@click.option("--gangs", is_flag=True, help="Show gangs instead, once: size, pods, domain, why pending.")
@rules_options
@pass_clock
@runs("reconciler.cli.top:top")
def top() -> None:
    """Show how many devices exist, are allocated and are free; and how many more of each profile fit.

    For partitions that share counters, counts what fits at the same time. docs/capacity.md defines
    profile, stranded and fragmented.

    On a terminal, shows a cluster until q is pressed: arrow and page keys scroll, s changes the order.
    Several --contexts are printed once, in one table.
    """
