"""The table of `fit`."""

from collections import Counter
from typing import TextIO

from reconciler.analysis.fitting.question import Fit, SetFit
from reconciler.cli.common.console import Console
from reconciler.cli.common.output import print_line, print_table
from reconciler.cli.common.plain_text import counted
from reconciler.cli.common.table import Table

SHOWN = 5
"""Nodes that are named for each set; the others are counted"""


def print_fit(result: Fit, out: TextIO) -> None:
    """Print the verdict, then each set, then what is short."""
    console = Console(out)
    short = [one for one in result.sets if one.short is not None]
    sets = counted(len(result.sets), "pod set")
    print_line(
        console,
        f"all pods fit: {sets}"
        if not short
        else f"{len(short)} of {sets} {'does' if len(short) == 1 else 'do'} not fit as a whole",
    )
    console.print()
    table = Table(("POD SET", "FIT", "COUNT", "TOGETHER IN", "NODES"), right=("FIT", "COUNT"))
    for one in result.sets:
        domain = ", ".join(f"{key}={value}" for key, value in one.domain) or "-"
        table.add((one.name, str(one.fits), str(one.count), domain, _nodes(one)))
    print_table(console, table)
    if short:
        console.print()
    for one in short:
        assert one.short is not None
        print_line(console, f"{one.name}: {one.short.reason}: {one.short.message}")


def _nodes(one: SetFit) -> str:
    found = sorted(Counter(seat.node for seat in one.seats).items())
    named = [node if pods == 1 else f"{node} ({pods})" for node, pods in found[:SHOWN]]
    more = [f"{len(found) - SHOWN} more"] if len(found) > SHOWN else []
    return ", ".join(named + more) or "-"
