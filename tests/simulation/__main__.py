"""`python -m tests.simulation`: play schedules by seed, and tell what they met."""

import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from time import perf_counter

import click

from tests.simulation.schedule import Outcome, run


@click.command()
@click.option("--seed", type=int, help="Only this schedule.")
@click.option("--schedules", type=int, default=500, show_default=True, help="How many, from --first on.")
@click.option("--first", type=int, default=0, show_default=True, help="The first seed.")
@click.option("--sockets", is_flag=True, help="Over HTTP, by way of the loopback device.")
@click.option("--pair", is_flag=True, help="Two replicas, of which one leads.")
@click.option("--processes", type=int, default=2, show_default=True)
@click.option("-v", "--verbose", is_flag=True, help="With --seed: every line that is logged.")
def main(
    seed: int | None,
    schedules: int,
    first: int,
    sockets: bool,
    pair: bool,
    processes: int,
    verbose: bool,
) -> None:
    """Play schedules. Exit code 1 if anything was found."""
    began = perf_counter()
    if seed is not None:
        outcomes = [run(seed, sockets=sockets, pair=pair, say=print if verbose else None)]
    else:
        seeds = range(first, first + schedules)
        with ProcessPoolExecutor(processes) as pool:
            outcomes = list(pool.map(partial(run, sockets=sockets, pair=pair), seeds, chunksize=10))
    count = sum((outcome.count for outcome in outcomes), Counter())
    for name, number in sorted(count.items()):
        print(f"{number:9}  {name}")
    failed = [outcome for outcome in outcomes if outcome.findings]
    for outcome in failed:
        print(f"\nseed {outcome.seed}:", *outcome.findings[:3], sep="\n  ")
    _sum_up(outcomes, failed, perf_counter() - began)
    sys.exit(bool(failed))


def _sum_up(outcomes: list[Outcome], failed: list[Outcome], seconds: float) -> None:
    hours = sum(outcome.seconds for outcome in outcomes) / 3600
    print(
        f"\n{len(outcomes)} schedules, {hours:.1f} hours of virtual time, in {seconds:.1f} s; "
        f"{len(failed)} with findings: {[outcome.seed for outcome in failed[:20]]}"
    )


if __name__ == "__main__":
    main()
