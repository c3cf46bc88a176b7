"""Says on a terminal what a command is at, once that takes long: what it does, how far, for how long."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import Lock, Timer
from typing import TypeVar

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

T = TypeVar("T")
PATIENCE = 0.7
"""Seconds until anything is shown: who is answered at once has nothing to wait for"""
SELDOM = 64
"""Steps from one change of what is shown to the next"""


class Work:
    """What a command is at. Costs next to nothing where nobody looks."""

    def __init__(self) -> None:
        self._words, self._done = "", 0
        self._bar: Progress | None = None
        self._task = TaskID(0)
        self._over = False
        self._lock = Lock()

    def stage(self, words: str) -> None:
        """From now on it is at this: `deciding`."""
        self._words, self._done = words, 0
        self._tell()

    def step(self, *_of: object) -> None:
        """One more is done. Takes what whoever counts hands over."""
        self._done += 1
        if self._done % SELDOM == 0:
            self._tell()

    def each(self, words: str, things: Iterable[T]) -> Iterator[T]:
        """The things, counted as they are taken."""
        self.stage(words)
        for thing in things:
            yield thing
            self.step()

    def show(self, console: Console) -> None:
        """Show it from now on. Any thread may call this."""
        with self._lock:
            if self._over:
                return
            # What the command prints must not go where the bar is.
            columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
            bar = Progress(*columns, console=console, transient=True, redirect_stdout=False)
            self._task = bar.add_task(self._text(), total=None)
            bar.start()
            self._bar = bar  # from here on whoever works tells it
            self._tell()

    def end(self) -> None:
        """Take away what is shown."""
        with self._lock:
            self._over = True
            if self._bar is not None:
                self._bar.stop()
                self._bar = None

    def _tell(self) -> None:
        if self._bar is not None:
            self._bar.update(self._task, description=self._text())

    def _text(self) -> str:
        return f"{self._words}: {self._done:,}" if self._done else self._words


SILENT = Work()
"""Nobody looks at it"""


@contextmanager
def working(*, quiet: bool = False) -> Iterator[Work]:
    """What a command is at in the block, on standard error where that is a terminal; unless `quiet`.

    Nothing is left of it afterwards, so what is printed for people is printed then.
    """
    work, console = Work(), Console(stderr=True)
    if quiet or not console.is_terminal:
        yield work
        return
    timer = Timer(PATIENCE, work.show, (console,))
    timer.daemon = True
    timer.start()
    try:
        yield work
    finally:
        timer.cancel()
        work.end()
