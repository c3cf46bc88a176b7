"""The table of `whatif`."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TextIO

from rich.console import Console
from rich.table import Table

from reconciler.analysis.whatif import Answer, Limit, Lost, Placed, Refused, Unit
from reconciler.cli.common.output import add_row, console_on, print_line, table_for
from reconciler.cli.common.plain_text import counted

MAX_COPIES = 20
"""Copies to list with their devices; for further copies, only the nodes are counted"""


def print_answer(found: Answer, units: Sequence[Unit], out: TextIO) -> None:
    """Print the verdict, then the placements, then the lost claims."""
    console = console_on(out)
    for line in _verdict(found, units):
        print_line(console, line)
    shown = [one for one in found.placed if one.copy <= MAX_COPIES]
    if shown:
        console.print()
        console.print(_placements(shown, console))
    if len(found.placed) > len(shown):
        nodes = Counter(one.node or "no node" for one in found.placed[len(shown) :])
        print_line(
            console, f"and on: {', '.join(f'{node} ({count})' for node, count in sorted(nodes.items()))}"
        )
    if found.lost:
        console.print()
        console.print(_losses(found.lost, console))
    if found.freed:
        print_line(console, f"assumed free: {', '.join(map(str, found.freed))}")


def _verdict(found: Answer, units: Sequence[Unit]) -> Iterator[str]:
    what = ", ".join(unit.name for unit in units)
    match found.limit:
        case Limit.NOTHING:
            pass
        case Limit.ASKED:
            yield f"fits: {what}" if found.copies == 1 else f"fits {found.copies} times: {what}"
        case Limit.BOUND:
            yield f"fits at least {found.copies} times: {what}"
        case _ if found.copies and not found.asked:
            yield f"fits {_times(found.copies)}: {what}"
        case _ if found.asked and found.asked > 1:
            yield f"does not fit: {found.copies} of {found.asked} copies: {what}"
        case _:
            yield f"does not fit: {what}"
    if found.refused is not None:
        verdict = "may fit" if found.limit is Limit.GAVE_UP else "does not fit"
        yield f"copy {found.refused.copy} {verdict}: {found.refused.unit}: {_why(found.refused)}"
    if found.lost or found.limit is Limit.NOTHING:
        claims = sum(len(one.claims) for one in found.lost)
        nowhere = sum(len(one.claims) for one in found.lost if isinstance(one.elsewhere, Refused))
        yield f"lost: {counted(claims, 'claim')}; {nowhere} cannot be allocated elsewhere"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _why(refused: Refused) -> str:
    return f"{refused.reason}: {refused.message}"


def _placements(placed: Iterable[Placed], console: Console) -> Table:
    table = table_for(console, ("COPY", "CLAIM", "REQUEST", "DEVICE", "NODE"))
    for one in placed:
        for claim, request, device in one.devices:
            add_row(table, (str(one.copy), str(claim), request, str(device), one.node or "-"))
    return table


def _losses(lost: Iterable[Lost], console: Console) -> Table:
    table = table_for(console, ("LOST", "POD", "HOLDS NOW", "ELSEWHERE"))
    for one in lost:
        match one.elsewhere:
            case Placed(node=node, devices=devices):
                where = "\n".join([f"{device} on {node or 'no node'}" for _, _, device in devices])
            case Refused() as refused:
                where = f"nowhere: {_why(refused)}"
        pod = str(one.pod) if one.pod is not None else "-"
        add_row(table, ("\n".join(map(str, one.claims)), pod, "\n".join(map(str, one.devices)), where))
    return table
