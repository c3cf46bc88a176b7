"""The display of the demonstration: a growing table on a terminal, otherwise one line per allocation."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from reconciler.api.objects.meta import ObjectKey
from reconciler.cli.common.plain_text import counted
from reconciler.cli.demo.state import DemoState, Line
from reconciler.control.decisions.decisions import Waits

_PHASES = {"Running": "running", "Succeeded": "succeeded", "Gated": "gated", "Pending": "pending"}


class Display(Protocol):
    """Shows the state of the demonstration."""

    def show(self, state: DemoState) -> None:
        """Update the display."""


@contextmanager
def display(console: Console) -> Iterator[Display]:
    """Open a display for the block; the final state stays visible."""
    if console.is_terminal:
        with Live(console=console, auto_refresh=False) as live:
            yield _TableDisplay(live)
    else:
        yield _LineDisplay(console)


class _TableDisplay:
    def __init__(self, live: Live) -> None:
        self._live = live

    def show(self, state: DemoState) -> None:
        self._live.update(tables(state), refresh=True)


class _LineDisplay:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._shown = 0

    def show(self, state: DemoState) -> None:
        for line in state.lines[self._shown :]:
            self._print(
                f"{_after(line):>8}  allocated {line.claim}: {', '.join(line.devices)} on {line.node}"
            )
        self._shown = len(state.lines)

    def _print(self, text: str) -> None:
        self._console.print(Text(text), soft_wrap=True)


def tables(state: DemoState) -> RenderableType:
    """The allocations so far, and the pending claims."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    table.add_column("CLAIM", overflow="fold")
    table.add_column("DEVICES", style="cyan", overflow="fold")
    table.add_column("NODE", style="green")
    table.add_column("USED BY", overflow="fold")
    table.add_column("AFTER", justify="right", style="magenta", no_wrap=True)
    for line in state.lines:
        gone = line.claim not in state.claims
        users = "finished" if gone else ", ".join(state.users(line.claim)) or "-"
        row = (str(line.claim), "\n".join(line.devices), line.node, users, _after(line))
        table.add_row(*map(Text, row), style="dim" if gone else None)
    return Group(table, _pending(state)) if state.pending() else table


def _pending(state: DemoState) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    table.add_column("PENDING", overflow="fold")
    table.add_column("REASON", style="yellow", no_wrap=True)
    table.add_column("MESSAGE", overflow="fold")
    for claim, why in state.pending():
        table.add_row(str(claim), why.reason, Text(message(claim, why)))
    return table


def conclusion(state: DemoState, console: Console) -> Iterator[Text]:
    """Yield the reasons of pending claims, unless a table shows them, and a summary."""
    if not console.is_terminal:
        for claim, why in state.pending():
            yield Text(f"pending   {claim}: {why.reason}: {message(claim, why)}")
    held = sum(1 for claim in state.claims.values() if claim.allocation)
    phases = [f"{count} {_PHASES.get(phase, phase)}" for phase, count in state.phases().most_common()]
    allocated = f"{counted(len(state.lines), 'claim')} allocated, {held} still in use"
    yield Text(f"{allocated}; {len(state.pending())} pending. Pods: {', '.join(phases)}.", "bold")


def message(claim: ObjectKey, why: Waits) -> str:
    """The message of the reason, without the name of the claim."""
    return why.message.removeprefix(f"claim {claim}, ").removeprefix(f"claim {claim}: ")


def _after(line: Line) -> str:
    return f"{line.seconds * 1000:.0f} ms"
