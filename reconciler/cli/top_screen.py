"""`top` on a full screen that scrolls and is redrawn when something changes. Only a terminal needs it."""

import asyncio
import io
import os
import re
import signal
import sys
import termios
import tty
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from typing import Any, TextIO, TypeVar

from rich.console import Group
from rich.live import Live
from rich.text import Text

from reconciler.cli.connection import Connection
from reconciler.cli.options import Clock
from reconciler.cli.output import Console, TableLine, plain, wrapped
from reconciler.cli.top_tables import TopView
from reconciler.operations.log_setup import configure

L = TypeVar("L")
S = TypeVar("S")
QUIT = frozenset({"q", "Q"})
_HELP = "q quit, arrows and page keys scroll"


class Viewport:
    """Which lines of a longer text are visible."""

    def __init__(self) -> None:
        self.first = 0
        self.height = 1

    def scroll(self, key: str, total: int) -> bool:
        """Scroll if this is a key for it; returns whether it is."""
        page, last = max(self.height - 1, 1), max(total - self.height, 0)
        moves = {
            "up": self.first - 1, "k": self.first - 1, "down": self.first + 1, "j": self.first + 1,
            "page up": self.first - page, "b": self.first - page,
            "page down": self.first + page, " ": self.first + page,
            "home": 0, "g": 0, "end": last, "G": last,
        }  # fmt: skip
        if key not in moves:
            return False
        self.first = min(max(moves[key], 0), last)
        return True

    def visible(self, total: int, height: int) -> range:
        """The lines to show in this height; after a change of size they may be others."""
        self.height = max(height, 1)
        self.first = min(self.first, max(total - self.height, 0))
        return range(self.first, min(self.first + self.height, total))


class Screen:
    """Shows lines until a key or a signal ends it."""

    def __init__(
        self,
        console: Console,
        *,
        title: Callable[[], str],
        lines: Callable[[int], Sequence[TableLine]],
        keys: Mapping[str, Callable[[], object]],
        state: Callable[[], str],
    ) -> None:
        """`lines` makes the text for a width, `keys` are actions, and `state` says what they have chosen."""
        self._console = console.drawing()
        self._title, self._lines, self._state = title, lines, state
        self._keys = keys
        self._viewport = Viewport()
        self._ended = asyncio.Event()
        self._live: Live | None = None
        self._help = "Ctrl-C quits"
        self._log = _LastLine(self.draw)

    async def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Show the screen while `work` runs, until the user quits. Raises what `work` raises.

        The terminal is restored in any case.
        """
        loop = asyncio.get_running_loop()
        with (
            keyboard(sys.stdin, self._on_key, self._ended.set) as has_keys,
            Live(console=self._console, auto_refresh=False, screen=True) as live,
            self._logging(),
            _signals(
                {signal.SIGINT: self._ended.set, signal.SIGTERM: self._ended.set, signal.SIGWINCH: self.draw}
            ),
        ):
            self._live = live
            self._help = _HELP if has_keys else self._help
            self.draw()
            working, ending = loop.create_task(work), loop.create_task(self._ended.wait())
            await asyncio.wait([working, ending], return_when=asyncio.FIRST_COMPLETED)
            ended = working.done()
            for task in (working, ending):
                task.cancel()
            await asyncio.wait([working, ending])
            self._live = None
        if ended:
            working.result()

    def draw(self) -> None:
        """Draw everything again."""
        if self._live is not None:
            self._live.update(Group(*self._frame()), refresh=True)

    def _frame(self) -> Iterator[Text]:
        width, height = self._console.size
        title = wrapped(plain(self._title()), width)
        lines = list(self._lines(width))
        below = wrapped(plain(self._log.text), width) if self._log.text else []
        foot = [*below, *wrapped(f"{self._help}; {self._state()}", width)]
        room = height - len(title) - len(foot) - 2
        shown = self._viewport.visible(len(lines), room)
        if len(shown) < len(lines):
            foot = [
                *foot[:-1],
                *wrapped(f"{foot[-1]}; lines {shown.start + 1}-{shown.stop} of {len(lines)}", width),
            ]
        for text in title:
            yield Text(text, "bold", no_wrap=True)
        yield Text()
        for at in shown:
            yield Text(lines[at].text, "bold" if lines[at].heading else "", no_wrap=True)
        for _ in range(room - len(shown) + 1):
            yield Text()
        for text in foot:
            yield Text(text, "dim", no_wrap=True)

    def _on_key(self, key: str) -> None:
        if key in QUIT:
            self._ended.set()
        elif key in self._keys:
            self._keys[key]()
            self.draw()
        elif self._viewport.scroll(key, len(self._lines(self._console.width))):
            self.draw()

    @contextmanager
    def _logging(self) -> Iterator[None]:
        """Show the last log line at the bottom: written as usual, it would go across the screen."""
        try:
            with redirect_stderr(self._log):
                configure("warning", "short")
                yield
        finally:
            configure("warning", "short")


class _LastLine(io.TextIOBase):
    """Keeps the last line that was written."""

    def __init__(self, changed: Callable[[], object]) -> None:
        self.text = ""
        self._changed = changed

    def write(self, text: str) -> int:
        if lines := text.strip().splitlines():
            self.text = lines[-1]
            self._changed()
        return len(text)


@contextmanager
def _signals(handlers: Mapping[signal.Signals, Callable[[], object]]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    for number, handler in handlers.items():
        loop.add_signal_handler(number, handler)
    try:
        yield
    finally:
        for number in handlers:
            loop.remove_signal_handler(number)


_NAMES = {
    b"A": "up", b"B": "down", b"H": "home", b"F": "end",
    b"1~": "home", b"4~": "end", b"5~": "page up", b"6~": "page down", b"7~": "home", b"8~": "end",
}  # fmt: skip
"""End of an escape sequence -> name of the key, in the modes of common terminals"""
_KEY = re.compile(rb"\x1b[\[O][0-9;]*[A-Za-z~]|[^\x1b]")
_INCOMPLETE = re.compile(rb"\x1b(?:[\[O][0-9;]*)?\Z")


class KeyReader:
    """Cuts the bytes of a terminal into keys."""

    def __init__(self) -> None:
        self._rest = b""

    def keys(self, read: bytes) -> Iterator[str]:
        """Yield the names of complete keys: a character, or a name such as `page up`. Others are ignored."""
        data = self._rest + read
        cut = _INCOMPLETE.search(data)
        self._rest = cut[0] if cut else b""
        for found in _KEY.findall(data[: len(data) - len(self._rest)]):
            if found[:1] == b"\x1b":
                if name := _NAMES.get(found[2:]):
                    yield name
            else:
                yield found.decode("ascii", "replace")


@contextmanager
def keyboard(stream: TextIO, on_key: Callable[[str], object], on_end: Callable[[], object]) -> Iterator[bool]:
    """Call `on_key` for each key while the block runs in an event loop, `on_end` when the terminal is gone.

    Yields whether there is a keyboard. Interrupting works as always; suspending does not, because a
    suspended program would leave its screen behind.
    """
    if not stream.isatty():
        yield False
        return
    terminal, reader, loop = stream.fileno(), KeyReader(), asyncio.get_running_loop()
    before = termios.tcgetattr(terminal)

    def read() -> None:
        try:
            data = os.read(terminal, 1024)
        except OSError:
            data = b""
        if not data:
            loop.remove_reader(terminal)
            on_end()
        for key in reader.keys(data):
            on_key(key)

    try:
        tty.setcbreak(terminal, termios.TCSADRAIN)
        _without_suspending(terminal)
        loop.add_reader(terminal, read)
        yield True
    finally:
        loop.remove_reader(terminal)
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _without_suspending(terminal: int) -> None:
    changed = termios.tcgetattr(terminal)
    changed[6][termios.VSUSP] = b"\x00"
    termios.tcsetattr(terminal, termios.TCSADRAIN, changed)


async def watch_cluster(
    view: TopView[L],
    follow: Callable[[Callable[[S], Awaitable[None]]], Coroutine[Any, Any, None]],
    measured: Callable[[S], Awaitable[Iterable[L]]],
    connection: Connection,
    console: Console,
    clock: Clock,
) -> None:
    """Show a cluster on the whole screen until the user quits.

    `follow` watches the cluster and passes on its states, `measured` makes lines of one. Raises what
    `follow` raises.
    """
    target = connection.target()
    screen = Screen(
        console,
        title=lambda: f"{clock.now().astimezone():%H:%M:%S}  {target}",
        lines=view.lines,
        keys={"s": view.next_order},
        state=lambda: f"s sorts (by {view.order})",
    )

    async def show(state: S) -> None:
        view.take(await measured(state))
        screen.draw()

    await screen.run(follow(show))
