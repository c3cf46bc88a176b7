"""The command `python -m perf placement churn`: claims that come and go on a fleet of mixed models."""

import json
from collections.abc import Sequence
from typing import Any

import click
from rich.console import Console

from perf.placement import churn, loss_system
from perf.placement.cluster import Cluster
from perf.placement.printing import AS_JSON, POLICY, SEEDS, means, policy_of, seeds_in, shown
from perf.placement.random_node import RANDOM_NODE
from reconciler.allocation.policies.named import POLICIES

FIGURES = ("held", "accepted", "p50_ms", "p99_ms", "p50_processor_ms", "p99_processor_ms")


@click.command("churn")
@click.option("--nodes", default=1250, show_default=True, type=click.IntRange(min=5))
@click.option(
    "--load", "loads", multiple=True, type=click.FloatRange(min=0.01), help="0.9 and 1.2 without it."
)
@SEEDS
@click.option("--arrivals", default=40000, show_default=True, type=click.IntRange(min=10))
@POLICY
@AS_JSON
def churn_(
    nodes: int,
    loads: Sequence[float],
    seed_list: str,
    arrivals: int,
    policies: Sequence[str],
    as_json: bool,
) -> None:
    """Play claims that come and go on A100 as partitions, whole H100 and shared L4: GPUs in use."""
    rows: list[dict[str, Any]] = []
    kinds = [kind for kind, _ in churn.asked()]
    for load in loads or (0.9, 1.2):
        for seed in seeds_in(seed_list):
            arriving = churn.arrivals(nodes, load, arrivals, seed)
            for name in policies or (RANDOM_NODE, *POLICIES):
                with shown(f"load {load} seed {seed} {name}") as progress:
                    policy = policy_of(name, churn.demand(), seed)
                    cluster = Cluster(churn.objects(nodes), policy, churn.cores(nodes))
                    played = loss_system.play(cluster, kinds, arriving, arrivals // 2, progress)
                done = played.to_json(churn.gpus(nodes))
                rows.append({"load": load, "seed": seed, "policy": name, **done, **cluster.times.to_json()})
    if as_json:
        print(json.dumps(rows, indent=1))
        return
    Console().print(means(rows, "load", FIGURES))
