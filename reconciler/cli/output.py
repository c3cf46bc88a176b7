"""What commands print: lines and tables for people, JSON and YAML for programs, and the progress of slow
commands.
"""

import json
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import zip_longest
from threading import Lock, Timer
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TextIO, TypeVar

import click
import yaml
from rich.cells import cell_len

if TYPE_CHECKING:
    from rich.console import Console as Drawing
    from rich.progress import Progress, TaskID


_WORDS = re.compile(r"( *)([^ ]+)")
_DRA = "resource.k8s.io"
_GROUPS = {
    "Device": "scheduling.koordinator.sh",
    "DeviceClass": _DRA,
    "DeviceTaintRule": _DRA,
    "ResourceClaim": _DRA,
    "ResourceClaimTemplate": _DRA,
    "ResourceSlice": _DRA,
}
"""Kind -> API group; other kinds are of the core group"""


def plain(text: str) -> str:
    """Escape control characters and characters that cannot be encoded."""
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


def wrapped(text: str, width: int, *, hanging: int = 0) -> list[str]:
    """The text in lines of at most `width` columns, wrapped between words; longer words stay whole.

    Later lines are indented by `hanging` columns. There is at least one line. Several blanks within a line
    stay: they may be part of an expression.
    """
    if "\n" not in text and cell_len(text) <= width:
        return [text.rstrip()]
    lines = []
    for part in text.split("\n"):
        line, used = "", 0
        for blanks, word in _WORDS.findall(part):
            more = len(blanks) + cell_len(word)
            if line.strip() and used + more > width:
                lines.append(line)
                line, used = " " * hanging + word, hanging + cell_len(word)
            else:
                line, used = line + blanks + word, used + more
        lines.append(line)
    return lines


def object_name(kind: str, name: str) -> str:
    """`pod/p` or `resourceclaim.resource.k8s.io/c`, as `kubectl get -o name`: without a namespace."""
    group = _GROUPS.get(kind)
    return f"{kind.lower()}{f'.{group}' if group else ''}/{name}"


UNBOUNDED = 1_000_000
"""Width without a terminal: lines are never cut or wrapped, so that they can be searched"""
MIN_WIDTH = 20
"""Narrower terminals do not exist: some report 0"""
WIDTH = 80
"""Of a terminal that does not report its width"""

_COLOURS: Final = {"red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_CODES: Final = {"bold": "1", **_COLOURS}
"""Word of a style -> its parameter of the escape sequence SGR"""


class Console:
    """Prints lines, on a terminal in styles. Heeds COLUMNS, TERM, NO_COLOR and FORCE_COLOR."""

    def __init__(self, out: TextIO, *, terminal: bool | None = None) -> None:
        """`terminal` says whether it is one, if that is known."""
        self._out = out
        forced = os.environ.get("FORCE_COLOR")
        if terminal is None:
            terminal = bool(forced) if forced is not None else out.isatty()
        self.is_terminal = terminal
        self.is_dumb_terminal = terminal and os.environ.get("TERM", "").lower() in ("dumb", "unknown")
        self._colourless = bool(os.environ.get("NO_COLOR"))

    @property
    def width(self) -> int:
        """The columns of a line: of the terminal, or COLUMNS."""
        given = os.environ.get("COLUMNS", "")
        if given.isdigit():
            return int(given) if int(given) >= MIN_WIDTH else WIDTH
        if not self.is_terminal:
            return UNBOUNDED
        found = self._terminal_width()
        return found if found >= MIN_WIDTH else WIDTH

    def print(self, line: str = "", style: str = "") -> None:
        """Print a line as it is, at once. A style is `bold`, a colour or both, as in `bold red`."""
        code = self._code(style) if line else ""
        self._out.write(f"\x1b[{code}m{line}\x1b[0m\n" if code else f"{line}\n")
        self._out.flush()

    def drawing(self) -> "Drawing":
        """The same for `rich`."""
        from rich.console import Console as Drawing  # noqa: PLC0415 - see above

        return Drawing(
            file=self._out, force_terminal=self.is_terminal, highlight=False, emoji=False, markup=False
        )

    def _code(self, style: str) -> str:
        if not self.is_terminal or self.is_dumb_terminal:
            return ""
        return ";".join(_CODES[word] for word in style.split() if not (self._colourless and word in _COLOURS))

    def _terminal_width(self) -> int:
        for number in (0, 1, 2):  # whichever of the standard streams is the terminal
            try:
                return os.get_terminal_size(number).columns
            except OSError:
                continue
        return 0


_GAP = 2
_INDENT = 2
_MIN_PROSE = 24
"""A cell with several words is not wrapped to fewer columns: text in a narrow column is hard to read"""


class TableLine(NamedTuple):
    """A line of a table."""

    text: str
    heading: bool = False


class Table:
    """Headings and rows. A cell may have several lines; the first ones of a row stay level, and so on."""

    def __init__(self, headings: Sequence[str], *, right: Collection[str] = (), names: int = 1) -> None:
        """`right` are headings of numbers; the first `names` cells of a row say what the row is about."""
        self.headings = tuple(headings)
        self._right = frozenset(right)
        self._names = names
        self.rows: list[tuple[str, ...]] = []

    def within(self, heading: str) -> "Table":
        """An empty table with one more column of names, in front of all others."""
        return Table((heading, *self.headings), right=self._right, names=self._names + 1)

    def add(self, cells: Iterable[str]) -> None:
        """Add a row; control characters are escaped."""
        self.rows.append(tuple(map(plain, cells)))

    def lines(self, width: int) -> Iterator[TableLine]:
        """The table in lines of at most `width` columns, unless a single word is longer."""
        columns = range(len(self.headings))
        widths = self._widths(columns, width)
        if widths is not None:
            yield from self._headed(columns, widths)
            yield from self._body(columns, widths, self.rows)
            return
        columns = range(self._names, len(self.headings))
        widths = self._widths(columns, width - _INDENT)
        if widths is None:
            yield from self._blocks(width)
            return
        names = "  ".join(self.headings[: self._names])
        yield TableLine(names, heading=True)
        yield from self._headed(columns, widths, _INDENT)
        last = None
        for row in self.rows:
            if row[: self._names] != last:
                yield from map(TableLine, self._name_lines(row, width))
                last = row[: self._names]
            yield from self._body(columns, widths, [row], _INDENT)

    def _widths(self, columns: Sequence[int], width: int) -> list[int] | None:
        """The width of each column; None if they do not fit. What one does not need, others get."""
        full = [self._longest(column, cell_len) for column in columns]
        room = width - _GAP * (len(full) - 1)
        if sum(full) <= room:
            return full
        least = [
            max(self._longest(column, _longest_word), min(all_of, _MIN_PROSE))
            for column, all_of in zip(columns, full, strict=True)
        ]
        spare = room - sum(least)
        if not full or spare < 0:
            return None
        found = list(least)
        for place in sorted(range(len(found)), key=lambda at: full[at] - least[at]):
            open_ones = sum(1 for at, have in enumerate(found) if have == least[at] < full[at])
            more = min(full[place] - least[place], spare // max(open_ones, 1))
            found[place] += more
            spare -= more
        return found

    def _longest(self, column: int, measure: Callable[[str], int]) -> int:
        lines = (line for row in self.rows for line in row[column].split("\n"))
        return max(cell_len(self.headings[column]), max(map(measure, lines), default=0))

    def _headed(self, columns: Sequence[int], widths: Sequence[int], indent: int = 0) -> Iterator[TableLine]:
        cells = [self.headings[column] for column in columns]
        yield TableLine(self._line(columns, cells, widths, indent), heading=True)

    def _body(
        self, columns: Sequence[int], widths: Sequence[int], rows: Iterable[tuple[str, ...]], indent: int = 0
    ) -> Iterator[TableLine]:
        for row in rows:
            cells = [row[column].split("\n") for column in columns]
            for level in zip_longest(*cells, fillvalue=""):
                parts = [wrapped(text, width) for text, width in zip(level, widths, strict=True)]
                for line in zip_longest(*parts, fillvalue=""):
                    yield TableLine(self._line(columns, line, widths, indent))

    def _line(self, columns: Sequence[int], cells: Sequence[str], widths: Sequence[int], indent: int) -> str:
        padded = []
        for column, cell, width in zip(columns, cells, widths, strict=True):
            blanks = " " * (width - cell_len(cell))
            padded.append(blanks + cell if self.headings[column] in self._right else cell + blanks)
        return (" " * indent + (" " * _GAP).join(padded)).rstrip()

    def _name_lines(self, row: tuple[str, ...], width: int) -> list[str]:
        return wrapped("  ".join(cell.replace("\n", " ") for cell in row[: self._names]), width)

    def _blocks(self, width: int) -> Iterator[TableLine]:
        for number, row in enumerate(self.rows):
            if number:
                yield TableLine("")
            for line in self._name_lines(row, width):
                yield TableLine(line, heading=True)
            for heading, cell in zip(self.headings[self._names :], row[self._names :], strict=True):
                start = f"{heading.lower()}: "
                for line in cell.split("\n"):
                    for text in wrapped(start + line, width - _INDENT, hanging=_INDENT):
                        yield TableLine(" " * _INDENT + text)
                    start = " " * _INDENT


def _longest_word(line: str) -> int:
    return max(map(cell_len, line.split()), default=0)


_context: ContextVar[str] = ContextVar("context", default="")
"""Of several clusters, the one that remarks are about now"""


def print_table(console: Console, table: Table, *, wide: bool = False) -> None:
    """Print a table, with bold headings on a terminal. A wide one has one line for each row, however long."""
    for line in table.lines(UNBOUNDED if wide else console.width):
        console.print(line.text, "bold" if line.heading else "")


def print_line(console: Console, line: str, *, hanging: int = 2, style: str = "") -> None:
    """Print a line; control characters are escaped. Wraps it between words on a terminal."""
    for text in wrapped(plain(line), console.width, hanging=hanging):
        console.print(text, style)


def remark(line: str) -> None:
    """Print a line on standard error: a warning, a note or an error, such as `note: TEXT`.

    Errors begin with `Error: `, as those that click prints.
    """
    if context := _context.get():
        sort, _, text = line.partition(": ")
        line = f"{sort}: context {context}: {text}"
    print_line(Console(sys.stderr), line)


@contextmanager
def remarks_on(context: str) -> Iterator[None]:
    """Let all remarks of the block, and of tasks that it starts, name the cluster that they are about."""
    token = _context.set(context)
    try:
        yield
    finally:
        _context.reset(token)


class _NoAliases(yaml.SafeDumper):
    """Writes no anchors: they are hard to read, and some parsers reject them."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True


def echo_value(value: Any, output: str) -> None:
    """Print a value as `output`: json or yaml."""
    if output == "json":
        click.echo(json.dumps(value, indent=2))
    else:
        click.echo(yaml.safe_dump(value, sort_keys=False), nl=False)


def show(output: str, printed: Callable[[TextIO], None], value: Callable[[], Any]) -> None:
    """Print an answer as a table, or its value as `output`."""
    if output == "table":
        printed(sys.stdout)
    else:
        echo_value(value(), output)


def as_list(objects: Sequence[dict[str, Any]]) -> str:
    """Objects as one JSON List."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}, indent=2) + "\n"


def as_documents(objects: Sequence[dict[str, Any]], **style: Any) -> str:
    """Objects as one stream of YAML documents; empty if there are none."""
    return yaml.dump_all(objects, Dumper=_NoAliases, sort_keys=False, **style) if objects else ""


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
