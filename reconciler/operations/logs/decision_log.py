"""Logs each decision in one line, as its class declares it."""

from typing import Any

import structlog

from reconciler.control.decisions.decision import Decision
from reconciler.control.decisions.declaration import LoggedField
from reconciler.operations.logs.setup import LineLoggers

log = structlog.get_logger(__name__)


class _Fields(dict[type[Decision], tuple[LoggedField, ...]]):
    """The log fields of each class, computed once: there may be thousands of decisions per second."""

    def __missing__(self, kind: type[Decision]) -> tuple[LoggedField, ...]:
        found = self[kind] = tuple(kind.logged_fields())
        return found


_FIELDS = _Fields()


class _Bound:
    """The logger as it is configured now: to bind one takes as long as to write a line."""

    def __init__(self) -> None:
        self._of: tuple[object, object] = None, None
        self._logger: Any = None

    def logger(self) -> Any:
        """Bound again after each `configure`. Loggers of others may not outlive their stream."""
        config = structlog.get_config()
        factory, processors = config["logger_factory"], config["processors"]
        if not isinstance(factory, LineLoggers):
            return log
        if factory is not self._of[0] or processors is not self._of[1]:
            self._of, self._logger = (factory, processors), log.bind()
        return self._logger


_BOUND = _Bound()


def log_decision(decision: Decision) -> None:
    """Log a decision."""
    line = decision.line
    fields: dict[str, Any] = {}
    for attribute, name, logged in _FIELDS[type(decision)]:
        value = getattr(decision, attribute)
        if value is None and logged.optional:
            continue
        fields[name] = value if logged.write is None else logged.write(value)
    getattr(_BOUND.logger(), line.level)(line.event, **fields)
