"""Logs each decision in one line, as its class declares it."""

from typing import Any

import structlog

from reconciler.control.decisions.decision import Decision
from reconciler.control.decisions.declaration import LoggedField

log = structlog.get_logger(__name__)


class _Fields(dict[type[Decision], tuple[LoggedField, ...]]):
    """The log fields of each class, computed once: there may be thousands of decisions per second."""

    def __missing__(self, kind: type[Decision]) -> tuple[LoggedField, ...]:
        found = self[kind] = tuple(kind.logged_fields())
        return found


_FIELDS = _Fields()


def log_decision(decision: Decision) -> None:
    """Log a decision."""
    line = decision.line
    fields: dict[str, Any] = {}
    for attribute, name, logged in _FIELDS[type(decision)]:
        value = getattr(decision, attribute)
        if value is None and logged.optional:
            continue
        fields[name] = value if logged.write is None else logged.write(value)
    getattr(log, line.level)(line.event, **fields)
