"""Log lines on standard error: JSON, or text on a terminal.

Lines of libraries are written from level warning: their debug and info lines contain whole requests and
responses, with tokens and secrets. For the same reason tracebacks omit local variables.
"""

import asyncio
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from threading import RLock
from typing import Any, Literal, TextIO

import msgspec
import structlog
from structlog.typing import EventDict, Processor

Format = Literal["auto", "json", "text", "short"]

LOGGER = "reconciler"
"""The parent of all loggers of this program"""

LATEST = 0.01
"""Seconds for which a line of an event loop waits for others, unless it is a warning: a write for each takes
as long as making the line"""

_SECOND = timedelta(seconds=1)


def configure(level: str, form: Format = "auto") -> None:
    """Write log lines of `level` or above to standard error.

    `auto` is short on a terminal, else JSON. `text` is short on a terminal, else it has all fields.
    """
    if form in ("auto", "text") and sys.stderr.isatty():
        form = "short"
    before: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        TimeStamps(),
    ]
    last = _last(form, sys.stderr)
    writer = _LineWriter(sys.stderr)
    handler = _Handler(writer)
    # Our own lines go to the writer directly: `logging` would cost more than everything else.
    structlog.configure(
        processors=[*before, *last],
        logger_factory=LineLoggers(writer, level),
        wrapper_class=structlog.make_filtering_bound_logger(level),
    )
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=before,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger(LOGGER).setLevel(level.upper())


@contextmanager
def lines_in_order() -> Iterator[None]:
    """Around an event loop: its last lines are written before anything that is printed after it."""
    try:
        yield
    finally:
        for handler in logging.getLogger().handlers:
            handler.flush()


class TimeStamps:
    """Adds the time in UTC to lines, as ISO 8601 with microseconds. What lines of one second share is made
    once.
    """

    def __init__(self, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._now = now
        self._second = now(), now(), ""
        """Begin and end of a second, and its text: replaced together, since threads write lines too"""

    def __call__(self, _logger: Any, _method: str, event: EventDict) -> EventDict:
        now = self._now()
        begin, end, text = self._second
        if not begin <= now < end:
            begin = now.replace(microsecond=0)
            text = begin.isoformat().removesuffix("+00:00")
            self._second = begin, begin + _SECOND, text
        event["timestamp"] = f"{text}.{now.microsecond:06}Z"
        return event


class _LineWriter:
    """Writes lines. Those of an event loop are written together, LATEST seconds after the first or as soon as
    the loop is free then.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lines: list[str] = []
        self._lock = RLock()
        self._loop: asyncio.AbstractEventLoop | None = None
        """The loop that has scheduled a flush"""

    def write(self, line: str) -> None:
        """Write a line: now, or with others of the event loop."""
        with self._lock:
            self._lines.append(line)
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # no event loop in this thread
            self.flush()
            return
        if loop is not self._loop:
            self._loop = loop
            loop.call_later(LATEST, self.flush)

    def flush(self) -> None:
        """Write the buffered lines now. They are lost if the pipe is closed or the disk is full.

        If that raised, it would end the task that logs, or be logged itself, without end.
        """
        with self._lock:
            self._loop = None
            lines, self._lines = self._lines, []
            if lines:
                with suppress(OSError, ValueError):  # a closed file is a ValueError
                    self._stream.write("".join([f"{line}\n" for line in lines]))
                    self._stream.flush()


class _Line:
    """The logger that structlog passes a finished line to."""

    def __init__(self, name: str, writer: _LineWriter) -> None:
        self.name = name
        self._writer = writer

    def info(self, line: str) -> None:
        self._writer.write(line)

    debug = info

    def warning(self, line: str) -> None:
        self._writer.write(line)
        self._writer.flush()  # the line must survive a crash that follows

    error = critical = warning


class LineLoggers:
    """Makes the loggers of this program."""

    def __init__(self, writer: _LineWriter, level: str) -> None:
        ranks = logging.getLevelNamesMapping()
        least = ranks[level.upper()]
        self.levels = frozenset([name.lower() for name, rank in ranks.items() if rank >= least])
        """The levels of the lines that are written"""
        self._writer = writer
        self._names = structlog.stdlib.LoggerFactory()

    def __call__(self, *name: str) -> _Line:
        """A logger. Its default name is the module that uses it."""
        return _Line(name[0] if name else self._names().name, self._writer)


class _Handler(logging.Handler):
    """Takes the log records of libraries. `logging` flushes it when the process ends, so no line is lost."""

    def __init__(self, writer: _LineWriter) -> None:
        super().__init__()
        self._writer = writer

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._writer.write(self.format(record))
        except Exception:  # a failed write must not fail the caller
            self.handleError(record)

    def flush(self) -> None:
        self._writer.flush()


def _last(form: Format, stream: TextIO) -> list[Processor]:
    if form == "short":
        renderer = TerminalRenderer(lambda: _width(stream), colours=_colours())
        return [structlog.processors.format_exc_info, renderer]
    if form == "text":
        plain = structlog.dev.plain_traceback
        return [structlog.dev.ConsoleRenderer(colors=False, exception_formatter=plain)]
    return [structlog.processors.format_exc_info, _as_json]


def _as_json(_logger: Any, _method: str, event: EventDict) -> str:
    """One line of ASCII: some programs treat some Unicode characters as line ends."""
    try:
        line = msgspec.json.encode(event, enc_hook=repr)
        if line.isascii():
            return line.decode()
    except (TypeError, ValueError, RecursionError):
        pass
    return json.dumps(event, default=repr)


def _width(stream: TextIO) -> int:
    """The columns of a terminal, as COLUMNS or the terminal says; 80 if neither does."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdigit() and int(columns):
        return int(columns)
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def _colours() -> bool:
    return sys.stderr.isatty() and "NO_COLOR" not in os.environ


HIDDEN = frozenset(
    {
        *("timestamp", "level", "logger", "event", "exception"),
        *("decision_id", "counts", "steps", "nodes", "paths", "pending_seconds"),
    }
)
"""Fields for programs, and those that are shown another way"""
PROSE = ("message", "error", "why", "remedy")
"""Fields whose text needs no name; they come last"""
ALONE = "url"
"""A field with a line of its own, so that a terminal can open it and a double click selects it"""
MOST_NAMED = 3
"""Names of a list to show; of more, only how many there are"""
CUT = " ..."
_LEVEL_COLOURS = {"warning": "\x1b[33m", "error": "\x1b[31m", "critical": "\x1b[31m"}
_BOLD, _RESET = "\x1b[1m", "\x1b[0m"
_HANGING = " " * 9


class TerminalRenderer:
    """Renders an event as `12:03:04 claim allocated: default/c gpu-0 node=n1 (12 ms)`.

    What has happened as planned gets exactly one line, cut between words if it is too long. Warnings and
    errors are never cut; they are wrapped.
    """

    def __init__(self, width: Callable[[], int], *, colours: bool) -> None:
        """`width` is the number of columns of the terminal, which may change."""
        self._width = width
        self._colours = colours

    def __call__(self, _logger: Any, _method: str, event: EventDict) -> str:
        """Return the text of one event."""
        level = str(event.get("level", "info"))
        calm = level in ("info", "debug")
        title = str(event.get("event", ""))
        start = f"{_time(event)} {'' if calm else f'{level}: '}{title}"
        words = " ".join(_parts(event)).split()
        lines = [_cut(start, words, self._width())] if calm else _wrapped(start, words, self._width())
        if self._colours:
            style = _LEVEL_COLOURS.get(level, "") + _BOLD
            lines[0] = lines[0].replace(title, f"{style}{title}{_RESET}", 1)
        if event.get(ALONE):
            lines.append(str(event[ALONE]))
        if event.get("exception"):
            lines.append(str(event["exception"]))
        return "\n".join(lines)


def _time(event: EventDict) -> str:
    """The time on the clock of this machine; empty without a time."""
    try:
        return f"{datetime.fromisoformat(str(event['timestamp'])).astimezone():%H:%M:%S}"
    except (KeyError, ValueError):
        return ""


def _parts(event: EventDict) -> Iterator[str]:
    """Yield the fields that are shown: names, numbers, then sentences."""
    for name, value in event.items():
        if name in HIDDEN or name in PROSE or name == ALONE or value in (None, "", [], ()):
            continue
        if name == "duration_ms":
            yield f"({value:.0f} ms)"
        elif name in ("claim", "claims", "pod", "pods", "unit", "devices", "device", "reason", "server"):
            yield _text(name, value)
        else:
            yield f"{name}={_text(name, value)}"
    yield from (_text(name, event[name]) for name in PROSE if event.get(name))


def _text(name: str, value: Any) -> str:
    """A value without brackets and quotes. Devices without driver and pool, as far as there are few."""
    if not isinstance(value, (list, tuple)):
        return " ".join(_plain(str(value)).split())
    found = [_plain(str(one)) for one in value]
    if name == "devices":
        found = [one.rpartition("/")[2] for one in found]
    more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    return ", ".join(found[:MOST_NAMED]) + more


def _plain(text: str) -> str:
    return "".join(one if one.isprintable() or one.isspace() else repr(one)[1:-1] for one in text)


def _cut(start: str, words: list[str], width: int) -> str:
    """One line with the words that fit; at least the first, which says what it is about."""
    line = start + ":" if words else start
    for at, word in enumerate(words):
        rest = len(CUT) if at < len(words) - 1 else 0
        if at and len(line) + 1 + len(word) + rest > width:
            return line + CUT
        line = f"{line} {word}"
    return line


def _wrapped(start: str, words: list[str], width: int) -> list[str]:
    lines = [start + ":" if words else start]
    for word in words:
        if len(lines[-1]) + 1 + len(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(_HANGING + word)
    return lines
