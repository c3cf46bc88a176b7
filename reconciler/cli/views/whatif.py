"""The table of `whatif`."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TextIO

from reconciler.analysis.whatif.scenario import Answer, Gang, Limit, Lost, Placed, PlacedGang, Refused, Unit
from reconciler.cli.common.console import Console
from reconciler.cli.common.output import print_line, print_table
from reconciler.cli.common.plain_text import counted
from reconciler.cli.common.table import Table

MAX_COPIES = 20
"""Copies to list with their devices; for further copies, only the nodes are counted"""


def print_answer(answer: Answer, units: Sequence[Unit | Gang], out: TextIO) -> None:
    """Print the verdict, then the placements, then the lost claims."""
    console = Console(out)
    for line in _verdict(answer, units):
        print_line(console, line)
    for line in _gangs(answer.gangs):
        print_line(console, line)
    shown = [one for one in answer.placed if one.copy <= MAX_COPIES]
    if shown:
        console.print()
        print_table(console, _placements(shown))
    if len(answer.placed) > len(shown):
        nodes = Counter(one.node or "no node" for one in answer.placed[len(shown) :])
        print_line(
            console, f"and on: {', '.join(f'{node} ({count})' for node, count in sorted(nodes.items()))}"
        )
    if answer.lost:
        console.print()
        print_table(console, _losses(answer.lost))
    if answer.freed:
        print_line(console, f"assumed free: {', '.join(map(str, answer.freed))}")


def _verdict(answer: Answer, units: Sequence[Unit | Gang]) -> Iterator[str]:
    names = ", ".join(unit.name for unit in units)
    match answer.limit:
        case Limit.NOTHING:
            pass
        case Limit.ASKED:
            yield f"fits: {names}" if answer.copies == 1 else f"fits {answer.copies} times: {names}"
        case Limit.BOUND:
            yield f"fits at least {answer.copies} times: {names}"
        case _ if answer.copies and not answer.asked:
            yield f"fits {_times(answer.copies)}: {names}"
        case _ if answer.asked and answer.asked > 1:
            yield f"does not fit: {answer.copies} of {answer.asked} copies: {names}"
        case _:
            yield f"does not fit: {names}"
    if answer.refused is not None:
        verdict = "may fit" if answer.limit is Limit.GAVE_UP else "does not fit"
        yield f"copy {answer.refused.copy} {verdict}: {answer.refused.unit}: {_why(answer.refused)}"
    if answer.lost or answer.limit is Limit.NOTHING:
        claims = sum(len(one.claims) for one in answer.lost)
        stuck = sum(len(one.claims) for one in answer.lost if isinstance(one.elsewhere, Refused))
        pods = [one for one in answer.lost if not one.claims]
        stuck += sum(isinstance(one.elsewhere, Refused) for one in pods)
        also = f" and {counted(len(pods), 'pod')} with Koordinator's devices" if pods else ""
        yield f"lost: {counted(claims, 'claim')}{also}; {stuck} cannot be allocated elsewhere"


def _gangs(gangs: Sequence[PlacedGang]) -> Iterator[str]:
    for one in gangs[:MAX_COPIES]:
        where = " and ".join(f"{key}={value}" for key, value in one.domain)
        nodes = counted(len({seat.node for seat in one.seats}), "node")
        left = f"; no place for {', '.join(one.left_out)}" if one.left_out else ""
        pods = counted(len(one.seats), "pod")
        yield f"copy {one.copy} of {one.unit}: {pods} on {nodes}{', all in ' if where else ''}{where}{left}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _why(refused: Refused) -> str:
    return f"{refused.reason}: {refused.message}"


def _placements(placed: Iterable[Placed]) -> Table:
    table = Table(("COPY", "CLAIM", "REQUEST", "DEVICE", "NODE"), names=2)
    for one in placed:
        for claim, request, device in one.devices:
            table.add((str(one.copy), str(claim), request, str(device), one.node or "-"))
        if not one.devices:
            table.add((str(one.copy), one.unit, "-", "-", one.node or "-"))
    return table


def _losses(lost: Iterable[Lost]) -> Table:
    table = Table(("LOST", "POD", "HOLDS NOW", "ELSEWHERE"), names=2)
    for one in lost:
        match one.elsewhere:
            case Placed(node=node, devices=devices):
                where = "\n".join([f"{device} on {node or 'no node'}" for _, _, device in devices])
            case Refused() as refused:
                where = f"nowhere: {_why(refused)}"
        pod = str(one.pod) if one.pod is not None else "-"
        claims = "\n".join(map(str, one.claims)) or "-"
        table.add((claims, pod, "\n".join(map(str, one.devices)), where))
    return table
