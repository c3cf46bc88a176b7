"""Progress of slow commands on a terminal: the stage, a count and the elapsed time."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import Lock, Timer
from typing import TYPE_CHECKING, TypeVar

from reconciler.cli.output import Console

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


T = TypeVar("T")
DELAY_SECONDS = 0.7
"""Seconds until progress is shown; fast commands show none"""
UPDATE_STEPS = 64
"""Steps between two updates of the display"""


class ProgressTracker:
    """The progress of a command. Almost free while it is not shown."""

    def __init__(self) -> None:
        self._stage, self._done = "", 0
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._over = False
        self._lock = Lock()

    def stage(self, name: str) -> None:
        """Start a stage, for example `allocating claims`."""
        self._stage, self._done = name, 0
        self._update()

    def step(self, *_of: object) -> None:
        """Count one step. Ignores its arguments, so that it can be used as a callback."""
        self._done += 1
        if self._done % UPDATE_STEPS == 0:
            self._update()

    def each(self, name: str, items: Iterable[T]) -> Iterator[T]:
        """Start a stage and yield the items, counting them."""
        self.stage(name)
        for item in items:
            yield item
            self.step()

    def show(self, console: Console) -> None:
        """Start to show progress. Any thread can call this."""
        with self._lock:
            if self._over:
                return
            # Late import: most commands end before they show anything.
            from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415

            # The command's own output must not go to the progress bar.
            columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
            bar = Progress(*columns, console=console.drawing(), transient=True, redirect_stdout=False)
            self._task = bar.add_task(self._text(), total=None)
            bar.start()
            self._bar = bar  # from now on the working thread updates it
            self._update()

    def end(self) -> None:
        """Remove the progress bar."""
        with self._lock:
            self._over = True
            if self._bar is not None:
                self._bar.stop()
                self._bar = None

    def _update(self) -> None:
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, description=self._text())

    def _text(self) -> str:
        return f"{self._stage}: {self._done:,}" if self._done else self._stage


SILENT = ProgressTracker()
"""Progress that is never shown"""


@contextmanager
def track_progress(*, quiet: bool = False) -> Iterator[ProgressTracker]:
    """Show the progress of the block on standard error if that is a terminal; unless `quiet`.

    The progress bar is removed at the end: print results after the block.
    """
    progress, console = ProgressTracker(), Console(sys.stderr)
    if quiet or not console.is_terminal:
        yield progress
        return
    timer = Timer(DELAY_SECONDS, progress.show, (console,))
    timer.daemon = True
    timer.start()
    try:
        yield progress
    finally:
        timer.cancel()
        progress.end()
