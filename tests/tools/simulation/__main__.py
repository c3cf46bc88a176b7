"""`python -m tests.tools.simulation`: play schedules by seed, and tell what they met."""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from functools import partial
from time import perf_counter

import click

from tests.tools.simulation.mutants import BY_KIND, EVERY
from tests.tools.simulation.process import Say
from tests.tools.simulation.schedule import KINDS, Outcome, run


@click.command()
@click.option("--seed", type=int, help="Only this schedule.")
@click.option("--schedules", type=int, default=500, show_default=True, help="How many, from --first on.")
@click.option("--first", type=int, default=0, show_default=True, help="The first seed.")
@click.option(
    "--kind",
    "kinds",
    type=click.Choice([*KINDS]),
    multiple=True,
    help="; ".join(f"{name}: {what}" for name, what in KINDS.items()) + ".",
)
@click.option("--processes", type=int, default=2, show_default=True)
@click.option(
    "--mutant",
    type=click.Choice([name for of in BY_KIND.values() for name in of]),
    help="Break this until it is noticed.",
)
@click.option("--awaits", is_flag=True, help="Tell at which awaits the reconciler was killed.")
@click.option("-v", "--verbose", is_flag=True, help="With --seed: every line that is logged.")
def main(
    seed: int | None,
    schedules: int,
    first: int,
    kinds: tuple[str, ...],
    processes: int,
    mutant: str | None,
    awaits: bool,
    verbose: bool,
) -> None:
    """Play schedules. Exit code 1 if anything was found."""
    began = perf_counter()
    kinds += tuple(kind for kind, of in BY_KIND.items() if kind and mutant in of)
    play = partial(_play, kinds=kinds, mutant=mutant)
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


def _play(seed: int, *, kinds: tuple[str, ...], mutant: str | None, say: Say | None = None) -> Outcome:
    with EVERY[mutant]() if mutant is not None else nullcontext():
        return run(seed, *kinds, say=say)


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
