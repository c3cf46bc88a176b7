"""The options and the help of `dra-reconciler replay`."""

from pathlib import Path

import click

from reconciler.allocation.policies.names import POLICIES
from reconciler.cli.common.options import (
    output_option,
)
from reconciler.cli.common.policy_options import (
    checked_policies,
    demand_option,
)
from reconciler.cli.common.running import runs


@click.command()
@click.argument("journal", type=click.Path(exists=True, path_type=Path), metavar="DIR|FILE")
@click.option("--until", metavar="DECISION", help="Stop after the decision with this id.")
@click.option(
    "--explain", "explained", is_flag=True, help="Explain the refusals, or with --until that decision."
)
@click.option(
    "--policy",
    "--diff-policy",
    "policy",
    multiple=True,
    callback=checked_policies,
    metavar="[DRIVER=|class:CLASS=]NAME",
    help=f"Compare with other policies: {', '.join(POLICIES)}.  [default: those of the journal]",
)
@demand_option
@output_option("table", "json", "yaml")
@runs("reconciler.cli.replay:replay_command")
def replay() -> None:
    """Repeat the decisions of a journal, from the same inputs in the same order, and compare.

    `run --journal DIR` writes a journal. Share ids are random, so they are not compared. With --policy, each
    decision is made from the recorded state, as if the policy had decided it alone.
    """
