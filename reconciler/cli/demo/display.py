"""The board on a terminal, as a table that grows; elsewhere as lines, one when it happens."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from reconciler.api.objects.meta import ObjectKey
from reconciler.cli.demo.board import Board, Line
from reconciler.control.decisions.decisions import Waits

_PHASES = {"Running": "running", "Succeeded": "ended", "Gated": "behind the gate", "Pending": "pending"}


class Display(Protocol):
    """Shows a board."""

    def show(self, board: Board) -> None:
        """Bring what is shown up to date."""


@contextmanager
def display(console: Console) -> Iterator[Display]:
    """A display for the block; the final state stays visible after it."""
    if console.is_terminal:
        with Live(console=console, auto_refresh=False) as live:
            yield _Growing(live)
    else:
        yield _Lines(console)


class _Growing:
    def __init__(self, live: Live) -> None:
        self._live = live

    def show(self, board: Board) -> None:
        self._live.update(picture(board), refresh=True)


class _Lines:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._shown = 0

    def show(self, board: Board) -> None:
        for line in board.lines[self._shown :]:
            self._say(f"{_after(line):>8}  allocated {line.claim}: {', '.join(line.devices)} on {line.node}")
        self._shown = len(board.lines)

    def _say(self, text: str) -> None:
        self._console.print(Text(text), soft_wrap=True)


def picture(board: Board) -> RenderableType:
    """The allocations so far, and those who wait."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    table.add_column("CLAIM", overflow="fold")
    table.add_column("DEVICES", style="cyan", overflow="fold")
    table.add_column("NODE", style="green")
    table.add_column("USED BY", overflow="fold")
    table.add_column("AFTER", justify="right", style="magenta", no_wrap=True)
    for line in board.lines:
        gone = line.claim not in board.claims
        users = "ended" if gone else ", ".join(board.users(line.claim)) or "-"
        row = (str(line.claim), "\n".join(line.devices), line.node, users, _after(line))
        table.add_row(*map(Text, row), style="dim" if gone else None)
    return Group(table, _waiting(board)) if board.waiting() else table


def _waiting(board: Board) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    table.add_column("WAITS", overflow="fold")
    table.add_column("BECAUSE", style="yellow", no_wrap=True)
    table.add_column("", overflow="fold")
    for claim, why in board.waiting():
        table.add_row(str(claim), why.reason, Text(message(claim, why)))
    return table


def conclusion(board: Board, console: Console) -> Iterator[Text]:
    """What is said at the end: why claims wait, where the table has not said it, and the count of all."""
    if not console.is_terminal:
        for claim, why in board.waiting():
            yield Text(f"waits     {claim}: {why.reason}: {message(claim, why)}")
    held = sum(1 for claim in board.claims.values() if claim.allocation)
    phases = [f"{count} {_PHASES.get(phase, phase)}" for phase, count in board.phases().most_common()]
    yield Text(
        f"{len(board.lines)} claims allocated, {held} of them still held; {len(board.waiting())} wait. "
        f"Pods: {', '.join(phases)}.",
        "bold",
    )


def message(claim: ObjectKey, why: Waits) -> str:
    """The reason in words, without the name of the claim where that was said already."""
    return why.message.removeprefix(f"claim {claim}, ").removeprefix(f"claim {claim}: ")


def _after(line: Line) -> str:
    return f"{line.seconds * 1000:.0f} ms"
