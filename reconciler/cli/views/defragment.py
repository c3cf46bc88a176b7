"""The tables of `defragment`."""

from collections.abc import Iterator, Mapping
from string import ascii_letters
from typing import TextIO

from reconciler.analysis.relocation.defragment import Answer, Cells
from reconciler.analysis.relocation.places import Ended
from reconciler.api.objects.meta import ObjectKey
from reconciler.cli.common.console import Console
from reconciler.cli.common.output import print_line, print_table
from reconciler.cli.common.plain_text import counted
from reconciler.cli.common.table import Table

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
    console = Console(out)
    for line in _verdict(answer):
        print_line(console, line)
    if not answer.steps:
        return
    letters = _letters(answer)
    for table in (_moves(answer, letters), _map(answer, letters), _profiles(answer)):
        console.print()
        print_table(console, table)
    hidden = len(answer.pictures) - MOST_PLACES
    if hidden > 0:
        print_line(console, f"and {counted(hidden, 'place')} more; -o json has all of them")


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


def _moves(answer: Answer, letters: Mapping[ObjectKey, str]) -> Table:
    table = Table(("MOVE", "POD", "MAP", "FROM", "TO", "GAINS"), right=("MOVE", "GAINS"), names=2)
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


def _map(answer: Answer, letters: Mapping[ObjectKey, str]) -> Table:
    table = Table(("PLACE", "BEFORE", "AFTER"))
    for one in answer.pictures[:MOST_PLACES]:
        table.add((one.place, _cells(one.before, letters), _cells(one.after, letters)))
    return table


def _cells(cells: Cells, letters: Mapping[ObjectKey, str]) -> str:
    return "".join(FREE if claim is None else letters.get(claim, STAYS) for claim in cells)


def _profiles(answer: Answer) -> Table:
    table = Table(("DRIVER", "PROFILE", "FIT NOW", "FIT AFTER"), right=("FIT NOW", "FIT AFTER"), names=2)
    for one in answer.profiles:
        table.add((one.driver, one.profile, str(one.before), str(one.after)))
    return table
