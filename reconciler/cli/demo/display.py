"""The display of the demonstration: a growing table on a terminal, otherwise one line per allocation."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Group
from rich.live import Live
from rich.text import Text

from reconciler.api.objects.meta import ObjectKey
from reconciler.cli.common.console import Console
from reconciler.cli.common.output import print_line
from reconciler.cli.common.plain_text import counted
from reconciler.cli.common.table import Table, TableLine
from reconciler.cli.demo.state import DemoState, Line
from reconciler.control.decisions.allocating import Waits

_PHASES = {"Running": "running", "Succeeded": "succeeded", "Gated": "gated", "Pending": "pending"}


class Display(Protocol):
    """Shows the state of the demonstration."""

    def show(self, state: DemoState) -> None:
        """Update the display."""


@contextmanager
def display(console: Console) -> Iterator[Display]:
    """Open a display for the block; the final state stays visible."""
    if console.is_terminal:
        with Live(console=console.drawing(), auto_refresh=False) as live:
            yield _TableDisplay(live)
    else:
        yield _LineDisplay(console)


class _TableDisplay:
    def __init__(self, live: Live) -> None:
        self._live = live

    def show(self, state: DemoState) -> None:
        lines = [
            Text(line.text, "bold" if line.heading else "", no_wrap=True)
            for line in lines_of(state, self._live.console.width)
        ]
        self._live.update(Group(*lines), refresh=True)


class _LineDisplay:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._shown = 0

    def show(self, state: DemoState) -> None:
        for line in state.lines[self._shown :]:
            text = f"{_after(line):>8}  allocated {line.claim}: {', '.join(line.devices)} on {line.node}"
            print_line(self._console, text, hanging=10)
        self._shown = len(state.lines)


def lines_of(state: DemoState, width: int) -> Iterator[TableLine]:
    """The allocations so far, and the pending claims."""
    table = Table(("CLAIM", "DEVICES", "NODE", "USED BY", "AFTER"), right=("AFTER",))
    for line in state.lines:
        gone = line.claim not in state.claims
        users = "finished" if gone else ", ".join(state.users(line.claim)) or "-"
        table.add((str(line.claim), "\n".join(line.devices), line.node, users, _after(line)))
    yield from table.lines(width)
    if state.pending():
        yield TableLine("")
        pending = Table(("PENDING", "REASON", "MESSAGE"), names=2)
        for claim, why in state.pending():
            pending.add((str(claim), why.reason, message(claim, why)))
        yield from pending.lines(width)


def print_conclusion(state: DemoState, console: Console) -> None:
    """Print the reasons of pending claims, unless a table shows them, and a summary."""
    if not console.is_terminal:
        for claim, why in state.pending():
            print_line(console, f"pending   {claim}: {why.reason}: {message(claim, why)}", hanging=10)
    held = sum(1 for claim in state.claims.values() if claim.allocation)
    phases = [f"{count} {_PHASES.get(phase, phase)}" for phase, count in state.phases().most_common()]
    allocated = f"{counted(len(state.lines), 'claim')} allocated, {held} still in use"
    summary = f"{allocated}; {len(state.pending())} pending. Pods: {', '.join(phases)}."
    print_line(console, summary, style="bold")


def message(claim: ObjectKey, why: Waits) -> str:
    """The message of the reason, without the name of the claim."""
    return why.message.removeprefix(f"claim {claim}, ").removeprefix(f"claim {claim}: ")


def _after(line: Line) -> str:
    return f"{line.seconds * 1000:.0f} ms"
