"""Log lines on standard error: JSON, or text on a terminal.

Lines of libraries are written from level warning: their debug and info lines contain whole requests and
responses, with tokens and secrets. For the same reason tracebacks omit local variables.
"""

import json
import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from threading import RLock
from typing import Any, Literal, TextIO

import msgspec
import structlog
from structlog.typing import EventDict, Processor

from reconciler.errors import shortened

Format = Literal["auto", "json", "text", "short"]

LOGGER = "reconciler"
"""The parent of all loggers of this program"""


def configure(level: str, form: Format = "auto") -> None:
    """Write log lines of `level` or above to standard error.

    `auto` is short on a terminal, else JSON. `text` is short on a terminal, else it has all fields.
    """
    if form in ("auto", "text") and sys.stderr.isatty():
        form = "short"
    before: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper("%Y-%m-%dT%H:%M:%S.%fZ", utc=True),
    ]
    last = _last(form, sys.stderr)
    lines = _Lines(sys.stderr)
    structlog.configure(
        processors=[*before, *last],
        logger_factory=lines.logger,
        wrapper_class=structlog.make_filtering_bound_logger(level),
    )
    handler = _Handler(lines)
    handler.addFilter(_without_request)
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


def _without_request(record: logging.LogRecord) -> bool:
    """Drop the traceback of an error about a malformed request: it quotes the request, with its tokens."""
    if record.exc_info and type(record.exc_info[1]).__module__.startswith("aiohttp."):
        record.exc_info = None
    return True


class _Lines:
    """Writes lines of all threads to a stream, each at once and whole."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lock = RLock()
        self._names = structlog.stdlib.LoggerFactory([__name__])

    def logger(self, *name: str) -> "_Logger":
        """A logger. Its default name is the module that uses it."""
        return _Logger(name[0] if name else self._names().name, self)

    def write(self, line: str) -> None:
        """Write a line. It is lost if the pipe is closed or the disk is full: an error would end the task
        that logs, or be logged itself, without end.
        """
        with self._lock, suppress(OSError, ValueError):  # a closed file is a ValueError
            self._stream.write(f"{line}\n")
            self._stream.flush()


class _Logger:
    """The logger that structlog passes a finished line to."""

    def __init__(self, name: str, lines: _Lines) -> None:
        self.name = name
        self.debug = self.info = self.warning = self.error = self.critical = lines.write


class _Handler(logging.Handler):
    """Takes the log records of libraries."""

    def __init__(self, lines: _Lines) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._lines.write(self.format(record))
        except Exception:  # a record that cannot be formatted must not fail the caller
            self.handleError(record)


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
    """Yield the fields that are shown: the reason, names, numbers, then sentences without the names."""
    names = [one for name in ("claim", "claims", "pod") for one in _listed(event.get(name))]
    if event.get("reason"):
        yield _text("reason", event["reason"])
    for name, value in event.items():
        if name in (*HIDDEN, *PROSE, ALONE, "reason") or value in (None, "", [], ()):
            continue
        if name == "duration_ms":
            yield f"({value:.0f} ms)"
        elif name in ("claim", "claims", "pod", "pods", "unit", "devices", "device", "server"):
            yield _text(name, value)
        else:
            yield f"{name}={_text(name, value)}"
    yield from (_unnamed(_text(name, event[name]), names) for name in PROSE if event.get(name))


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else () if value is None else (value,)


def _unnamed(text: str, names: Iterable[Any]) -> str:
    """A sentence without the object at its start that the line names: `claim a/b, request gpu: ...`."""
    starts = (f"{kind}{name}{end}" for name in names for kind in ("claim ", "") for end in (", ", ": ", " "))
    return text.removeprefix(next(filter(text.startswith, starts), ""))


def _text(name: str, value: Any) -> str:
    """A value without brackets and quotes. Devices without driver and pool, as far as there are few."""
    if not isinstance(value, (list, tuple)):
        return " ".join(_plain(str(value)).split())
    found = [_plain(str(one)) for one in value]
    if name == "devices":
        found = [one.rpartition("/")[2] for one in found]
    return shortened(found, MOST_NAMED)


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
