"""`dra-reconciler defragment`: which pods to move so that more of the large devices fit."""

import sys
from collections.abc import Iterator, Mapping
from string import ascii_letters
from typing import TextIO

import click

from reconciler.allocation.dra.budget import STEPS
from reconciler.analysis.capacity.layout import fleet_layout
from reconciler.analysis.relocation.defragment import Answer, Cells
from reconciler.analysis.relocation.defragment import defragment as answer_of
from reconciler.analysis.relocation.goals import Target, for_each_kind, parse_percent
from reconciler.analysis.relocation.moves_planner import Ended
from reconciler.analysis.world import World
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.semantics import Semantics
from reconciler.cli import output as printing
from reconciler.cli.connection import Connection
from reconciler.cli.exits import NoAnswer, errors_as, exit_unless
from reconciler.cli.options import fleet_options
from reconciler.cli.world import read_world
from reconciler.errors import Rejected, counted

DEFAULT_PERCENT = 90
"""Of each kind of room that the fleet can strand, without --gain and --target"""


@click.command()
@click.option(
    "--gain",
    metavar="NAME=N",
    help="Gain room for so many more: devices of a profile (7g.40gb=2), groups of devices with one value of "
    "an attribute (DOMAIN/NAME=2), or nodes without allocated devices (node=2).",
)
@click.option(
    "--target",
    metavar="[NAME=]PERCENT%",
    help="Raise what fits to this part of the most that could. Without a name: large profiles, groups on a "
    f"NUMA node or PCIe root, or whole nodes, whichever the fleet has.  [default: {DEFAULT_PERCENT}%]",
)
@fleet_options(
    "table", "json", "yaml", "commands", explained="commands prints the evictions for kubectl.", steps=STEPS
)
def defragment(
    gain: str | None,
    target: str | None,
    files: tuple[str, ...],
    connection: Connection,
    output: str,
    rules: Semantics,
    steps: int,
) -> None:
    """Find pods to move so that more large devices, groups or whole nodes are free at once. Writes nothing.

    Only pods that a controller replaces are moved, one after another, each to devices that are free at that
    moment. The fewest moves for the gain are preferred; the answer says how far a better plan could go. See
    docs/defragment.md.

    \b
    Examples:
      dra-reconciler defragment
      dra-reconciler defragment --gain node=1 -f docs/examples/fragmented.yaml
    """
    if gain is not None and target is not None:
        raise click.UsageError("Set --gain or --target, not both.")
    wanted = _gain(gain) if gain is not None else _percent(target or f"{DEFAULT_PERCENT}%")
    with errors_as(NoAnswer), printing.track_progress(quiet=output != "table") as progress:
        world = read_world(files, connection, rules, progress, budgets=True)
        answer = _first_plan(wanted, world, steps, progress)
    if output == "table":
        print_plan(answer, sys.stdout)
    elif output == "commands":
        for line in answer.evictions:
            click.echo(line)
    else:
        printing.echo_value(answer.as_json(), output)
    exit_unless(answer.reached)


def _first_plan(wanted: Target, world: World, steps: int, progress: printing.ProgressTracker) -> Answer:
    """The answer for a target; without a name, for the first kind of room that moves bring closer."""
    snapshot = world.store.snapshot()
    layout = fleet_layout(snapshot.topology)
    targets = for_each_kind(wanted, layout)
    if not targets:
        raise NoAnswer(
            "no devices share counters, and no node has several; name what to gain, such as --gain node=1"
        )
    answers = []
    for target in targets:
        answers.append(answer_of(target, world, layout=layout, steps=steps, progress=progress.stage))
        if answers[-1].steps:
            break
        if len(targets) > 1:
            why = "no moves were found" if answers[-1].wanted else "nothing to do"
            printing.remark(f"note: {target}: {why}")
    return next((one for one in reversed(answers) if one.steps or one.wanted), answers[0])


def _gain(text: str) -> Target:
    name, _, number = text.rpartition("=")
    if not name or not number.isdecimal() or not int(number):
        raise click.UsageError(f"--gain {text}: write NAME=N with a positive number, such as 7g.40gb=2.")
    return Target(name, gain=int(number))


def _percent(text: str) -> Target:
    try:
        return parse_percent(text)
    except Rejected as exc:
        raise click.UsageError(f"--target {exc}.") from exc


FREE, STAYS, MORE = ".", "#", "*"
"""In the map: a free place, one held by a pod that stays, one held by a pod beyond the letters"""
MOST_PLACES = 40
"""Places in the map"""

_LIMITS = {
    Ended.DECISIONS: "decisions",
    Ended.MOVES: "moves",
    Ended.STOPPED: "time",
    Ended.STEPS: "steps of one decision",
    Ended.PLACES: "places for one pod",
    Ended.SETS: "sets of the pods in one place",
    Ended.ALTERNATIVES: "alternatives to the first plan",
}


def print_plan(answer: Answer, out: TextIO) -> None:
    """Print the verdict, the moves in order, the map of the places they touch, and what fits then."""
    console = printing.Console(out)
    for line in _verdict(answer):
        printing.print_line(console, line)
    if not answer.steps:
        return
    letters = _letters(answer)
    for table in (_moves(answer, letters), _map(answer, letters), _profiles(answer)):
        console.print()
        printing.print_table(console, table)
    hidden = len(answer.pictures) - MOST_PLACES
    if hidden > 0:
        printing.print_line(console, f"and {counted(hidden, 'place')} more; -o json has all of them")


def _verdict(answer: Answer) -> Iterator[str]:
    moves = len(answer.moves)
    after = answer.before + answer.gain
    if not answer.wanted:
        yield f"nothing to do: {_of(answer.before, answer.title)} now; {answer.most} more at most"
        return
    if answer.gain:
        each = answer.gain / moves
        yield (
            f"{counted(moves, 'move')} {'gains' if moves == 1 else 'gain'} {_of(answer.gain, answer.title)}: "
            f"{answer.before} now, {after} after; {each:.2g} a move"
        )
    if not answer.reached:
        yield f"found a gain of {answer.gain} of {answer.wanted}; no plan gains more than {answer.most}"
    else:
        yield f"no plan gains more than {answer.most}"
    if answer.gave_up:
        better = "gain more" if answer.gain < min(answer.wanted, answer.most) else "need fewer moves"
        limits = ", ".join(_LIMITS[one] for one in answer.ended)
        yield f"the search gave up at a limit ({limits}); another plan may {better}"
    if answer.optimal:
        yield "proven: no plan with this gain has fewer moves"
    elif answer.gain and answer.fewest is not None:
        gain = min(answer.gain, answer.wanted)
        yield f"no plan that gains {gain} has fewer than {counted(answer.fewest, 'move')}"


def _of(count: int, title: str) -> str:
    """`2 devices of 7g.40gb`, `1 free node`."""
    noun, of, rest = title.partition(" of ")
    return f"{counted(count, noun)}{of}{rest}"


def _letters(answer: Answer) -> Mapping[ObjectKey, str]:
    """A letter for each claim that moves."""
    claims = [claim for move in answer.moves for claim in move.claims]
    return {claim: ascii_letters[at] if at < len(ascii_letters) else MORE for at, claim in enumerate(claims)}


def _moves(answer: Answer, letters: Mapping[ObjectKey, str]) -> printing.Table:
    table = printing.Table(("MOVE", "POD", "MAP", "FROM", "TO", "GAINS"), right=("MOVE", "GAINS"), names=2)
    number = 0
    for step in answer.steps:
        for move in step.moves:
            number += 1
            gain = str(step.gain) if move is step.moves[-1] else ""
            table.add(
                (
                    str(number),
                    str(move.pod),
                    "".join(letters[claim] for claim in move.claims),
                    "\n".join(f"{one.pool}/{one.device}" for one in move.devices),
                    "\n".join(f"{one.pool}/{one.device}" for one in move.to_devices),
                    gain,
                )
            )
    return table


def _map(answer: Answer, letters: Mapping[ObjectKey, str]) -> printing.Table:
    table = printing.Table(("PLACE", "BEFORE", "AFTER"))
    for one in answer.pictures[:MOST_PLACES]:
        table.add((one.place, _cells(one.before, letters), _cells(one.after, letters)))
    return table


def _cells(cells: Cells, letters: Mapping[ObjectKey, str]) -> str:
    return "".join(FREE if claim is None else letters.get(claim, STAYS) for claim in cells)


def _profiles(answer: Answer) -> printing.Table:
    table = printing.Table(
        ("DRIVER", "PROFILE", "FIT NOW", "FIT AFTER"), right=("FIT NOW", "FIT AFTER"), names=2
    )
    for one in answer.profiles:
        table.add((one.driver, one.profile, str(one.before), str(one.after)))
    return table
