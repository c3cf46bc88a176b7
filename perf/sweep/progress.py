"""The progress of a sweep: a bar on a terminal, a line now and then in the log of a pod."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

BETWEEN_LINES = 10.0
"""Seconds"""
Advance = Callable[[int, int], None]
"""Called with the scenarios that have results, and those that failed"""


@contextmanager
def shown(total: int, before: int) -> Iterator[Advance]:
    """Show the progress on standard error. `before` scenarios have results already."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _in_lines(total)
        return
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("scenarios", total=total, completed=before)
        yield lambda done, failed: progress.update(
            task,
            completed=done + failed,
            description=f"scenarios, {failed} failed" if failed else "scenarios",
        )


def _in_lines(total: int) -> Advance:
    told = monotonic()

    def advance(done: int, failed: int) -> None:
        nonlocal told
        if (now := monotonic()) - told >= BETWEEN_LINES or done + failed == total:
            told = now
            print(f"{done} of {total} scenarios, {failed} failed", file=sys.stderr, flush=True)

    return advance
