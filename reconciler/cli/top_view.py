"""What `top` shows: printed once, or on a full screen that scrolls and is redrawn when something changes."""

import asyncio
import io
import os
import re
import signal
import sys
import termios
import tty
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, redirect_stderr
from typing import Any, ClassVar, Generic, TextIO, TypeVar

from msgspec import Struct
from rich.console import Group
from rich.live import Live
from rich.text import Text

from reconciler.analysis.capacity.lines import By
from reconciler.api.objects.similar_names import instead
from reconciler.cli.cluster import Connection
from reconciler.cli.exits import NoAnswer
from reconciler.cli.options import FOR_PEOPLE, Clock
from reconciler.cli.output import Console, Table, TableLine, echo_value, plain, print_table, wrapped
from reconciler.operations.log_setup import configure
from reconciler.state.store import Store

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


L = TypeVar("L")
S = TypeVar("S")
NO_DEVICES = "no device is published that a node can use"


class TopOptions(Struct, frozen=True):
    """The options of `top`."""

    by: By
    types: tuple[str, ...]
    """Drivers, or types of a plugin's devices; empty for all"""
    nodes: tuple[str, ...]
    sort: str
    output: str
    live: bool
    interval: float
    """Seconds between two updates, if live"""

    @property
    def wide(self) -> bool:
        """Whether to show more columns."""
        return self.output == "wide"


class TopView(Generic[L]):
    """The lines of `top`, in an order that can be changed."""

    orders: ClassVar[Mapping[str, Callable[[Any], float]]]
    """Name of an order -> sort key, lowest first; equal lines stay sorted by name"""

    def __init__(self, options: TopOptions) -> None:
        self.options = options
        self.order = options.sort
        self.notes: Sequence[str] = ()
        """What the tables leave out, for the screen; printed once, it goes to standard error"""
        self._taken: list[L] | None = None
        """Sorted by name; None until the first measurement"""

    @abstractmethod
    def selected(self, line: L) -> bool:
        """Whether the options select a line."""

    @abstractmethod
    def tables(self) -> list[Table]:
        """The tables of `found`."""

    @abstractmethod
    def value(self) -> dict[str, Any]:
        """`found` as JSON."""

    @property
    def found(self) -> list[L]:
        """The selected lines in their order."""
        key = self.orders.get(self.order)
        taken = self._taken or []
        return taken if key is None else sorted(taken, key=key)

    def take(self, lines: Iterable[L]) -> None:
        """Take new lines, sorted by name."""
        self._taken = [line for line in lines if self.selected(line)]

    def next_order(self) -> None:
        """Change to the next order, after the last one to the first."""
        names = ("name", *self.orders)
        self.order = names[(names.index(self.order) + 1) % len(names)]

    def print_on(self, console: Console) -> None:
        """Print everything once."""
        if self.options.output not in FOR_PEOPLE:
            echo_value(self.value(), self.options.output)
        elif not self.found:
            console.print(NO_DEVICES)
        else:
            for number, table in enumerate(self.tables()):
                if number:
                    console.print()
                print_table(console, table, wide=self.options.wide)

    def lines(self, width: int) -> list[TableLine]:
        """Everything as lines, for a screen."""
        if self._taken is None:
            return [TableLine("reading the cluster ...")]
        made: list[TableLine] = [] if self.found else [TableLine(NO_DEVICES)]
        for table in self.tables() if self.found else ():
            made += [TableLine("")] if made else []
            made += table.lines(width)
        made += [TableLine("")] if self.notes else []
        return made + [TableLine(text) for note in self.notes for text in wrapped(plain(note), width)]


class StoreView(TopView[L]):
    """What is measured in a store."""

    @abstractmethod
    def measuring(self, store: Store) -> Callable[[], list[L]]:
        """A function that measures the state as it is now. It may run in a thread while the store changes."""


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
    # Late import: only a terminal needs it.

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


def check_names(kind: str, names: Iterable[str], known: Set[str]) -> None:
    """Raise NoAnswer for a name that does not exist."""
    for name in names:
        if name not in known:
            raise NoAnswer(f"there is no {kind} {name}{instead(name, known - {''}, f'{kind}s')}")
