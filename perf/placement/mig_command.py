"""The command `python -m perf placement mig`: the loss system and the queue of partitions."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from perf.placement import mig
from perf.placement.playing import LEARNED, REPACKING, partitions
from perf.placement.printing import AS_JSON, POLICY, SEEDS, means, seeds_in, shown
from perf.placement.profiles import MIXES
from perf.placement.random_node import RANDOM_NODE
from reconciler.allocation.policies.demand import Demand, read_demand
from reconciler.allocation.policies.names import FIRST_FIT

COMPARED = (RANDOM_NODE, FIRST_FIT, "best-fit", "least-loss")
TIMES = ("p50_ms", "p99_ms", "p50_processor_ms")


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
                    done = partitions(
                        name,
                        mix=mix,
                        load=load,
                        arrivals=arrivals,
                        seed=seed,
                        queue=queue,
                        learned=demand,
                        progress=progress,
                    )
                named = {"mix": mix, "seed": seed, "load": load, "policy": name}
                rows.append({**named, **done.figures, **done.times.to_json()})
    if as_json:
        print(json.dumps(rows, indent=1))
        return
    figures = ("mean_wait", "p95_wait") if queue else ("in_use", "accepted")
    Console().print(means(rows, "mix", (*figures, *TIMES)))


def _learned(mix: str, load: float, folder: Path) -> Demand:
    """The learnt demand in a folder. Learns and writes it if it is not there."""
    path = folder / f"{mix}.json"
    if not path.exists():
        with shown(f"{mix}: learning") as progress:
            found = mig.learnt_demand(mix, load, progress)
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"shapes": [shape.to_json() for shape in found.shapes]}, indent=1) + "\n")
    return read_demand(path.read_text(), str(path)).demand
