"""The command `python -m perf placement mig`: the loss system and the queue of partitions, and their aims."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from perf.placement import loss_system, mig, repacking, waiting
from perf.placement.cluster import Cluster
from perf.placement.mig_aims import aims
from perf.placement.printing import AS_JSON, POLICY, SEEDS, means, policy_of, seeds_in, shown
from perf.placement.profiles import MIXES, SLICES
from perf.placement.random_node import RANDOM_NODE
from perf.workload import Progress
from reconciler.allocation.policies.demand import Demand, read_demand
from reconciler.allocation.policies.named import FIRST_FIT, policy_named

LEARNED = "learned"
"""`least-loss` with a learnt value for every place"""
REPACKING = "repacking"
"""The limit: all partitions may move at each arrival"""
COMPARED = (RANDOM_NODE, FIRST_FIT, "best-fit", "least-loss")
TIMES = ("p50_ms", "p99_ms", "p50_processor_ms")
CAPACITY = SLICES * mig.GPUS


@click.command("mig")
@click.option("--mix", "mixes", multiple=True, type=click.Choice(list(MIXES)), help="Only these mixes.")
@click.option("--load", default=1.2, show_default=True, type=click.FloatRange(min=0.01))
@SEEDS
@click.option("--arrivals", default=8000, show_default=True, type=click.IntRange(min=10))
@click.option("--queue", is_flag=True, help="Claims wait instead of being refused; durations are log-normal.")
@click.option(
    "--learned",
    type=click.Path(file_okay=False, path_type=Path),
    help="Also learnt weights, as demands in this folder; those that are missing are learnt.",
)
@click.option("--limit", is_flag=True, help="Also what would be in use if partitions could move.")
@POLICY
@AS_JSON
def mig_(
    mixes: Sequence[str],
    load: float,
    seed_list: str,
    arrivals: int,
    queue: bool,
    learned: Path | None,
    limit: bool,
    policies: Sequence[str],
    as_json: bool,
) -> None:
    """Play MIG partitions that come and go on 104 GPUs: slices in use, what was accepted, or waits."""
    rows: list[dict[str, Any]] = []
    names = [*(policies or COMPARED), *([LEARNED] if learned else []), *([REPACKING] if limit else [])]
    for mix in mixes or MIXES:
        demand = _learned(mix, load, learned) if learned else None
        for seed in seeds_in(seed_list):
            for name in names:
                with shown(f"{mix} {seed} {name}") as progress:
                    done = _play(name, mix, load, arrivals, seed, queue, demand, progress)
                rows.append({"mix": mix, "seed": seed, "load": load, "policy": name, **done})
    if as_json:
        print(json.dumps({"runs": rows, "aims": [] if queue else aims(rows)}, indent=1))
        return
    console = Console()
    figures = ("mean_wait", "p95_wait") if queue else ("in_use", "accepted")
    console.print(means(rows, "mix", (*figures, *TIMES)))
    for line in [] if queue else aims(rows):
        console.print(line, highlight=False, soft_wrap=True)


def _play(
    name: str,
    mix: str,
    load: float,
    count: int,
    seed: int,
    queue: bool,
    demand: Demand | None,
    progress: Progress,
) -> dict[str, Any]:
    arriving = mig.arrivals(mix, load, count, seed)
    if queue:
        arriving = mig.log_normal(arriving, seed)
    if name == REPACKING:
        return repacking.play(arriving, mig.GPUS, count // 5, progress).to_json(CAPACITY)
    if name == LEARNED and demand is not None:
        policy = policy_named("least-loss", demand)
    else:
        policy = policy_of(name, mig.demand_of(mix), seed)
    cluster = Cluster(mig.objects(), policy)
    if queue:
        waited = waiting.play(cluster, mig.kinds(), arriving, progress)
        return {**waited.to_json(), **cluster.times.to_json()}
    played = loss_system.play(cluster, mig.kinds(), arriving, count // 5, progress)
    return {**played.to_json(CAPACITY), **cluster.times.to_json()}


def _learned(mix: str, load: float, folder: Path) -> Demand:
    """The learnt demand in a folder. Learns and writes it if it is not there."""
    path = folder / f"{mix}.json"
    if not path.exists():
        with shown(f"{mix}: learning") as progress:
            found = mig.learnt_demand(mix, load, progress)
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"shapes": [shape.to_json() for shape in found.shapes]}, indent=1) + "\n")
    return read_demand(path.read_text(), str(path)).demand
