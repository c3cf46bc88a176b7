"""Log lines: JSON for machines, readable ones on a terminal. Always on standard error.

What libraries log goes the same way, from warnings upwards: their finer lines hold whole requests and
answers, and with them tokens and secrets. For the same reason tracebacks come without local variables.
"""

import asyncio
import json
import logging
import os
import sys
from contextlib import suppress
from threading import RLock
from typing import Any, Literal, TextIO

import msgspec
import structlog
from structlog.typing import EventDict, Processor

Format = Literal["auto", "json", "text"]

LOGGER = "reconciler"
"""The logger whose level decides about all of ours"""


def configure(level: str, form: Format = "auto") -> None:
    """Send every log line of `level` or above to standard error. `auto` is text on a terminal, else JSON."""
    text = form == "text" or (form == "auto" and sys.stderr.isatty())
    before: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last = _last(text)
    handler = _Handler(_Pen(sys.stderr))
    # Lines of our own go to the pen directly: the ways through `logging` cost more than all the rest.
    structlog.configure(
        processors=[*before, *last],
        logger_factory=handler.logger,
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


class _Pen:
    """Writes lines. Those that are made in one turn of an event loop are written at its end, all at once."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lines: list[str] = []
        self._lock = RLock()
        self._loop: asyncio.AbstractEventLoop | None = None
        """The loop that will write what waits"""

    def write(self, line: str) -> None:
        """Write a line, at the end of this turn at the latest."""
        with self._lock:
            self._lines.append(line)
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # there are no turns here, or this is another thread
            self.flush()
            return
        if loop is not self._loop:
            self._loop = loop
            loop.call_soon(self.flush)

    def flush(self) -> None:
        """Write what waits, now. It is lost where nobody reads any more, or the disk is full.

        Raised here, the error would end the turn that has something to tell, or be logged in its turn, and
        that again, for ever.
        """
        with self._lock:
            self._loop = None
            lines, self._lines = self._lines, []
            if lines:
                with suppress(OSError, ValueError):  # a closed file is a ValueError
                    self._stream.write("".join([f"{line}\n" for line in lines]))
                    self._stream.flush()


class _Line:
    """What structlog hands a finished line to, by the name of its level."""

    def __init__(self, name: str, pen: _Pen) -> None:
        self.name = name
        self._pen = pen

    def info(self, line: str) -> None:
        self._pen.write(line)

    debug = info

    def warning(self, line: str) -> None:
        self._pen.write(line)
        self._pen.flush()  # who looks for a reason should find it, whatever happens next

    error = critical = warning


class _Handler(logging.Handler):
    """Takes what libraries log. At the end of the process `logging` flushes it, so that no line is lost."""

    def __init__(self, pen: _Pen) -> None:
        super().__init__()
        self._pen = pen
        self._names = structlog.stdlib.LoggerFactory()

    def logger(self, *name: str) -> _Line:
        """A logger of ours. Without a name it is called after the module that uses it."""
        return _Line(name[0] if name else self._names().name, self._pen)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._pen.write(self.format(record))
        except Exception:  # whoever logs must not fail for that
            self.handleError(record)

    def flush(self) -> None:
        self._pen.flush()


def _last(text: bool) -> list[Processor]:
    if text:
        plain = structlog.dev.plain_traceback
        return [structlog.dev.ConsoleRenderer(colors=_colours(), exception_formatter=plain)]
    return [structlog.processors.format_exc_info, _as_json]


def _as_json(_logger: Any, _method: str, event: EventDict) -> str:
    """One line of plain ASCII: some characters of Unicode end a line for some readers."""
    try:
        line = msgspec.json.encode(event, enc_hook=repr)
        if line.isascii():
            return line.decode()
    except (TypeError, ValueError, RecursionError):
        pass
    return json.dumps(event, default=repr)


def _colours() -> bool:
    return sys.stderr.isatty() and "NO_COLOR" not in os.environ
