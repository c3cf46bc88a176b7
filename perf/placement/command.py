"""The commands `python -m perf placement`; here: `openb`."""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from perf.placement import openb
from perf.placement.mig_command import mig_
from perf.placement.openb import published, read_arrivals, seeds, variants
from perf.placement.playing import mixed_models
from perf.placement.printing import AS_JSON, SEEDS, means, seeds_in, shown
from perf.placement.printing import POLICY as POLICY_OPTION
from perf.placement.random_node import RANDOM_NODE
from reconciler.allocation.policies.names import POLICIES
from reconciler.allocation.policies.selection import policy_named
from reconciler.errors import Malformed

FIGURES = ("held", "accepted", "p50_ms", "p99_ms", "p50_processor_ms", "p99_processor_ms")


@click.command("churn")
@click.option("--nodes", default=1250, show_default=True, type=click.IntRange(min=5))
@click.option(
    "--load", "loads", multiple=True, type=click.FloatRange(min=0.01), help="0.9 and 1.2 without it."
)
@SEEDS
@click.option("--arrivals", default=40000, show_default=True, type=click.IntRange(min=10))
@POLICY_OPTION
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
    for load in loads or (0.9, 1.2):
        for seed in seeds_in(seed_list):
            for name in policies or (RANDOM_NODE, *POLICIES):
                with shown(f"load {load} seed {seed} {name}") as progress:
                    done = mixed_models(
                        name, load=load, arrivals=arrivals, seed=seed, nodes=nodes, progress=progress
                    )
                named = {"load": load, "seed": seed, "policy": name}
                rows.append({**named, **done.figures, **done.times.to_json()})
    if as_json:
        print(json.dumps(rows, indent=1))
        return
    Console().print(means(rows, "load", FIGURES))


BOUND = {
    "default": 96.91, "cpu050": 96.91, "cpu100": 96.87, "cpu200": 96.90, "cpu250": 96.91,
    "gpushare40": 95.63, "gpushare60": 93.41, "gpushare80": 91.36, "gpushare100": 89.19,
    "gpuspec10": 96.86, "gpuspec20": 96.91, "gpuspec25": 96.89, "gpuspec33": 96.37,
    "multigpu20": 97.35, "multigpu30": 97.66, "multigpu40": 98.11, "multigpu50": 98.32,
}  # fmt: skip
"""Per cent that a linear program fills at 100 per cent arrived, seed 42, if it may drop any pod"""

POLICY = click.option(
    "--policy", "policies", multiple=True, type=click.Choice(POLICIES), help="Only these policies."
)


@click.group()
def placement() -> None:
    """Measure how much of a fleet each placement policy fills."""


@placement.command("openb")
@click.option(
    "--trace",
    required=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder with the files of the trace openb.",
)
@click.option(
    "--arrivals",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Recorded arrival orders.",
)
@click.option("--variant", "chosen", default="default", show_default=True, help="A variant, or `all`.")
@click.option("--seeds", "seed_list", default="", help="Such as 42,43; all recorded ones without it.")
@click.option("--learn", is_flag=True, help="Start without a demand and learn it from the arrivals.")
@POLICY
@AS_JSON
def openb_(
    trace: Path,
    arrivals: Path,
    chosen: str,
    seed_list: str,
    learn: bool,
    policies: Sequence[str],
    as_json: bool,
) -> None:
    """Play the public trace openb: per cent of the GPUs in use, beside the published figures."""
    console = Console(width=None if not as_json else 100)
    rows: list[dict[str, Any]] = []
    try:
        for variant in variants(arrivals) if chosen == "all" else [chosen]:
            for seed in seeds_in(seed_list) or seeds(arrivals, variant):
                run = read_arrivals(trace, arrivals, variant, seed)
                theirs = published(trace, variant, seed)
                for name in policies or ("expected-fill",):
                    with shown(f"{variant} {seed} {name}") as progress:
                        replay = openb.Replay(run, partial(policy_named, name), learn=learn)
                        done = replay.run(progress)
                    rows.append(_openb_row(variant, seed, name, done, theirs, learn=learn))
                    if not as_json:
                        console.print(_line(rows[-1]), highlight=False)
    except Malformed as exc:
        raise click.ClickException(str(exc)) from exc
    if as_json:
        print(json.dumps(rows, indent=1))


def _openb_row(
    variant: str,
    seed: int,
    policy: str,
    done: openb.Filled,
    theirs: Mapping[str, tuple[float, float]],
    *,
    learn: bool,
) -> dict[str, Any]:
    return {
        "variant": variant,
        "seed": seed,
        "policy": policy,
        "learn": learn,
        "at_100": done.at(100),
        "at_130": done.at(130),
        "failed": done.failed,
        **done.times.to_json(),
        "published": {name: {"at_100": first, "at_130": last} for name, (first, last) in theirs.items()},
        "bound_at_100": BOUND.get(variant),
    }


def _line(row: Mapping[str, Any]) -> str:
    fgd = row["published"].get("FGD")
    beside = f"; published FGD {fgd['at_100']:.2f}, {fgd['at_130']:.2f}" if fgd else ""
    bound = f"; bound {row['bound_at_100']:.2f}" if row["bound_at_100"] else ""
    return (
        f"{row['variant']} {row['seed']} {row['policy']}{' (learning)' if row['learn'] else ''}: "
        f"{row['at_100']:.2f} % at 100, {row['at_130']:.2f} % at 130{beside}{bound}; "
        f"p50 {row['p50_ms']:.2f} ms, p99 {row['p99_ms']:.2f} ms "
        f"({row['p50_processor_ms']:.2f} and {row['p99_processor_ms']:.2f} of processor time)"
    )


@placement.command("plot")
@click.argument(
    "results", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option("--out", required=True, type=click.Path(file_okay=False, path_type=Path), help="Folder.")
@click.option("--format", "suffix", default="svg", show_default=True, type=click.Choice(["svg", "png"]))
def plot_(results: Sequence[Path], out: Path, suffix: str) -> None:
    """Draw what `openb`, `mig` and `churn` printed with --json. Needs the extra `perf`."""
    try:
        from perf.placement import plots  # noqa: PLC0415 - matplotlib comes with an extra
    except ImportError as exc:
        raise click.ClickException(f"install the extra `perf`: {exc}") from exc
    rows = []
    for path in results:
        rows += json.loads(path.read_bytes())
    for path in plots.draw(rows, out, suffix):
        print(path)


placement.add_command(mig_)
placement.add_command(churn_)
