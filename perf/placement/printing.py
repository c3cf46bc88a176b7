"""Progress, options and tables that the commands of placement share."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from perf.placement.random_node import RANDOM_NODE, RandomNode
from reconciler.allocation.policies.demand import Demand
from reconciler.allocation.policies.names import POLICIES
from reconciler.allocation.policies.policy import Policy
from reconciler.allocation.policies.selection import policy_named

SEEDS = click.option("--seeds", "seed_list", default="100", show_default=True, help="Such as 100,101.")
POLICY = click.option(
    "--policy",
    "policies",
    multiple=True,
    type=click.Choice((RANDOM_NODE, *POLICIES)),
    help="Only these; random-node is how kube-scheduler behaves.",
)
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")


@contextmanager
def shown(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show the progress of something on the terminal until it is done."""
    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=1.0)
        yield lambda at, of: progress.update(task, completed=at, total=of)


def seeds_in(text: str) -> list[int]:
    """The seeds of an option such as `42,43`."""
    try:
        return [int(seed) for seed in text.split(",") if seed]
    except ValueError as exc:
        raise click.BadParameter(f"write numbers such as 42,43, not {text!r}", param_hint="--seeds") from exc


def policy_of(name: str, demand: Demand, seed: int) -> Policy | None:
    """A policy of the option, with the demand that it keeps room for."""
    return RandomNode(seed) if name == RANDOM_NODE else policy_named(name, demand)


def means(rows: Sequence[Mapping[str, Any]], by: str, figures: Sequence[str]) -> Table:
    """The means of figures over all rows with one value of the field `by` and one policy."""
    table = Table(by, "policy", *(name.replace("_", " ") for name in figures), box=None, pad_edge=False)
    for group, policy in dict.fromkeys((row[by], row["policy"]) for row in rows):
        of = [row for row in rows if (row[by], row["policy"]) == (group, policy)]
        values = (f"{np.mean([row[name] for row in of]):.4f}" if name in of[0] else "" for name in figures)
        table.add_row(str(group), policy, *values)
    return table
