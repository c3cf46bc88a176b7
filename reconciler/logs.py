"""Log lines: JSON for machines, readable ones on a terminal. Always on standard error.

What libraries log goes the same way, from warnings upwards: their finer lines hold whole requests and
answers, and with them tokens and secrets. For the same reason tracebacks come without local variables.
"""

import logging
import os
import sys
from typing import Literal

import structlog
from structlog.typing import Processor

Format = Literal["auto", "json", "text"]


def configure(level: str, form: Format = "auto") -> None:
    """Send every log line of `level` or above to standard error. `auto` is text on a terminal, else JSON."""
    text = form == "text" or (form == "auto" and sys.stderr.isatty())
    before: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *before,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=before,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_last(text)],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("reconciler").setLevel(level.upper())


def _last(text: bool) -> list[Processor]:
    if text:
        plain = structlog.dev.plain_traceback
        return [structlog.dev.ConsoleRenderer(colors=_colours(), exception_formatter=plain)]
    return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]


def _colours() -> bool:
    return sys.stderr.isatty() and "NO_COLOR" not in os.environ
