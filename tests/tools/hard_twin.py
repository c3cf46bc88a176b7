"""Hard questions of each family against trying everything, or CP-SAT where that is too much (with OR-Tools).

`make soak` asks thousands: python -m tests.tools.hard_twin --first 0 --cases 2000
"""

from collections import Counter
from random import Random

import click

from perf.fleets.hard import FAMILIES, SMALL, Question, Scale, question
from perf.hard_solver import solve
from reconciler.api.objects.plan import Granted, Reason
from tests.tools.allocation_world import World, decide, picks
from tests.tools.exhaustive_search import TooLarge, exhaustive

SCALE = Scale(gpus=(2, 3), nodes=(1, 1, 2, 3), requests=(1, 5), shapes=SMALL)
HELD = (0.0, 0.5)


def world_of(asked: Question) -> World:
    """The objects of a question."""
    kinds = {kind: [one for one in asked.fleet if one["kind"] == kind] for kind in ("Node", "DeviceClass")}
    slices = [one for one in asked.fleet if one["kind"] == "ResourceSlice"]
    return World(slices, asked.claims, asked.held, kinds["DeviceClass"], kinds["Node"])


def compared(asked: Question) -> str:
    """How a question was settled: granted, refused or unsettled; or `wrong: ...`."""
    world = world_of(asked)
    outcome = decide(world, steps=10_000)
    try:
        if isinstance(outcome, Granted):
            expected = exhaustive(world, outcome.node)
            return "granted" if expected == picks(outcome.plans) else f"wrong: it gets {expected}"
        names = [one["metadata"]["name"] for one in world.nodes]
        fits = any(exhaustive(world, name) is not None for name in names)
    except TooLarge:
        try:
            found, _ = solve(asked)
        except click.UsageError:  # no OR-Tools
            return "unsettled"
        if found is None or found == isinstance(outcome, Granted):
            return "unsettled" if found is None else "granted" if found else "refused"
        fits = found
    if isinstance(outcome, Granted) or outcome.reason is Reason.GAVE_UP or fits:
        return f"wrong: {outcome}"
    return "refused"


@click.command()
@click.option("--first", default=0, help="The first seed.")
@click.option("--cases", default=2000, help="How many questions of each family are asked.")
def main(first: int, cases: int) -> None:
    """Compare many answers, and print each that is wrong."""
    wrong = 0
    for family in FAMILIES:
        settled = Counter[str]()
        for seed in range(first, first + cases):
            found = compared(question(Random(seed), family, SCALE, HELD[seed % 2]))
            if found.startswith("wrong"):
                wrong += 1
                click.echo(f"{family} {seed}: {found}")
            settled[found.partition(":")[0]] += 1
        click.echo(f"{family}: {', '.join(f'{count} {what}' for what, count in sorted(settled.items()))}")
    if wrong:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
