"""`python -m tests.tools.simulation`: play schedules by seed, and tell what they met."""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from functools import partial
from time import perf_counter

import click

from tests.tools.simulation.mutants import ANNOUNCING, BURSTING, EVICTING, GANGED, MOVING, MUTANTS, PAIRED
from tests.tools.simulation.process import Say
from tests.tools.simulation.schedule import Outcome, run


@click.command()
@click.option("--seed", type=int, help="Only this schedule.")
@click.option("--schedules", type=int, default=500, show_default=True, help="How many, from --first on.")
@click.option("--first", type=int, default=0, show_default=True, help="The first seed.")
@click.option("--sockets", is_flag=True, help="Over HTTP, by way of the loopback device.")
@click.option("--pair", is_flag=True, help="Two replicas, of which one leads.")
@click.option("--gangs", is_flag=True, help="With gangs.")
@click.option("--evictions", is_flag=True, help="With preemption and budgets.")
@click.option("--bursts", is_flag=True, help="With bursts of claims and pods of one template.")
@click.option("--moves", is_flag=True, help="With preemption, and moves of pods that controllers replace.")
@click.option("--announced", is_flag=True, help="With claims that are announced as they are created.")
@click.option("--processes", type=int, default=2, show_default=True)
@click.option(
    "--mutant",
    type=click.Choice([*MUTANTS, *PAIRED, *GANGED, *EVICTING, *BURSTING, *MOVING, *ANNOUNCING]),
    help="Break this until it is noticed.",
)
@click.option("--awaits", is_flag=True, help="Tell at which awaits the reconciler was killed.")
@click.option("-v", "--verbose", is_flag=True, help="With --seed: every line that is logged.")
def main(
    seed: int | None,
    schedules: int,
    first: int,
    sockets: bool,
    pair: bool,
    gangs: bool,
    evictions: bool,
    bursts: bool,
    moves: bool,
    announced: bool,
    processes: int,
    mutant: str | None,
    awaits: bool,
    verbose: bool,
) -> None:
    """Play schedules. Exit code 1 if anything was found."""
    began = perf_counter()
    pair, gangs = pair or mutant in PAIRED, gangs or mutant in GANGED
    evictions, bursts = evictions or mutant in EVICTING, bursts or mutant in BURSTING
    moves, announced = moves or mutant in MOVING, announced or mutant in ANNOUNCING
    play = partial(
        _play,
        sockets=sockets,
        pair=pair,
        gangs=gangs,
        evictions=evictions,
        bursts=bursts,
        moves=moves,
        announced=announced,
        mutant=mutant,
    )
    if seed is not None:
        outcomes = [play(seed, say=print if verbose else None)]
    else:
        with ProcessPoolExecutor(processes) as pool:
            found = _in_turn(pool.map(play, range(first, first + schedules), chunksize=10), mutant)
            outcomes = list(found)
            pool.shutdown(cancel_futures=True)
    count = sum((outcome.count for outcome in outcomes), Counter())
    for name, number in sorted(count.items()):
        print(f"{number:9}  {name}")
    if awaits:
        points = sum((outcome.points for outcome in outcomes), Counter[str]())
        print(f"\nkilled while something was awaited at {len(points)} places:")
        for place, number in points.most_common():
            print(f"{number:9}  {place}")
    failed = [outcome for outcome in outcomes if outcome.findings]
    for outcome in failed:
        print(f"\nseed {outcome.seed}:", *outcome.findings[:3], sep="\n  ")
    _sum_up(outcomes, failed, perf_counter() - began)
    sys.exit(bool(failed))


def _play(
    seed: int,
    *,
    sockets: bool,
    pair: bool,
    gangs: bool,
    evictions: bool,
    bursts: bool,
    moves: bool,
    announced: bool,
    mutant: str | None,
    say: Say | None = None,
) -> Outcome:
    mutants = MUTANTS | PAIRED | GANGED | EVICTING | BURSTING | MOVING | ANNOUNCING
    with mutants[mutant]() if mutant is not None else nullcontext():
        return run(
            seed,
            sockets=sockets,
            pair=pair,
            gangs=gangs,
            evictions=evictions,
            bursts=bursts,
            moves=moves,
            announced=announced,
            say=say,
        )


def _in_turn(outcomes: Iterable[Outcome], mutant: str | None) -> Iterator[Outcome]:
    """All of them; of a mutant those up to the first in which it was noticed."""
    for outcome in outcomes:
        yield outcome
        if mutant is not None and outcome.findings:
            return


def _sum_up(outcomes: list[Outcome], failed: list[Outcome], seconds: float) -> None:
    hours = sum(outcome.seconds for outcome in outcomes) / 3600
    print(
        f"\n{len(outcomes)} schedules, {hours:.1f} hours of virtual time, in {seconds:.1f} s; "
        f"{len(failed)} with findings: {[outcome.seed for outcome in failed[:20]]}"
    )


if __name__ == "__main__":
    main()
