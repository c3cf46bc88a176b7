"""The command `python -m perf placement mig-bench`: a public benchmark beside its published figures."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from perf.placement import mig_bench
from perf.placement.printing import AS_JSON, shown
from reconciler.allocation.policies.names import POLICIES
from reconciler.allocation.policies.selection import policy_named
from reconciler.errors import Malformed

COMPARED = ("first-fit", "best-fit", "least-loss")
DIFFERENCES = (
    "Published runs had fake agents, a real API server and a real scheduler. Here the engine decides in\n"
    "process: no time of binding counts, and the oldest job that fits always comes first."
)
HOUR = 3_600_000
"""Milliseconds"""


@click.command("mig-bench")
@click.option(
    "--trace",
    "folder",
    required=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder with a trace (*trace.jsonl) and its published figures (*summary.csv).",
)
@click.option("--policy", "policies", multiple=True, type=click.Choice(POLICIES), help="Only these policies.")
@AS_JSON
def mig_bench_(folder: Path, policies: Sequence[str], as_json: bool) -> None:
    """Play a trace of the MIG-scheduler-benchmark (FouoF): slices in use and waits, beside the published."""
    rows: list[dict[str, Any]] = []
    try:
        jobs, theirs = mig_bench.read_jobs(folder), mig_bench.published(folder)
        demand = mig_bench.demand_of(jobs)
        for name in policies or COMPARED:
            with shown(name) as progress:
                rows.append({"policy": name, **mig_bench.play(jobs, policy_named(name, demand), progress)})
    except Malformed as exc:
        raise click.ClickException(str(exc)) from exc
    if as_json:
        print(json.dumps({"ours": rows, "published": theirs, "differences": DIFFERENCES}, indent=1))
        return
    console = Console()
    console.print(_table([*rows, *theirs]))
    console.print(DIFFERENCES, highlight=False, soft_wrap=True)


def _table(rows: Sequence[Mapping[str, Any]]) -> Table:
    headings = ("policy", "slices in use", "mean wait h", "p95 wait h", "makespan h", "p50 ms")
    table = Table(*headings, box=None, pad_edge=False)
    for row in rows:
        waits = (f"{row[name] / HOUR:.3f}" for name in ("mean_wait", "p95_wait", "makespan"))
        decision = f"{row['p50_ms']:.3f}" if "p50_ms" in row else "published"
        table.add_row(row["policy"], f"{row['in_use'] * 100:.2f} %", *waits, decision)
    return table
