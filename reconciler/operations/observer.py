"""Shows operators what is decided: one log line each, then metrics, traces and all other listeners."""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any

import structlog

from reconciler.control.decisions.declaration import Decision, LoggedField, Report
from reconciler.control.units import Unit
from reconciler.operations.logs.setup import LineLoggers
from reconciler.operations.metrics.meters import Meters
from reconciler.operations.metrics.requests import NoTraces


class OperationsObserver:
    """Implements `reconciler.control.decisions.declaration.Observer`."""

    def __init__(self, meters: Meters, traces: NoTraces, listeners: Iterable[Report]) -> None:
        """The `listeners` get each decision in their order, after it was logged and counted."""
        self._meters = meters
        self._traces = traces
        self._listeners = (meters.on_decision, *listeners)

    def reconciling(self, unit: Unit) -> AbstractContextManager[None]:
        return self._traces.turn(unit)

    def on_answer(self, reason: str, seconds: float, decision_id: str) -> None:
        self._meters.answered(reason, seconds, decision_id)
        self._traces.answered(reason, seconds, decision_id)

    def on_decision(self, decision: Decision) -> None:
        log_decision(decision)
        for listener in self._listeners:
            listener(decision)


log = structlog.get_logger(__name__)


class _Fields(dict[type[Decision], tuple[LoggedField, ...]]):
    """The log fields of each class, computed once: there may be thousands of decisions per second."""

    def __missing__(self, kind: type[Decision]) -> tuple[LoggedField, ...]:
        found = self[kind] = tuple(kind.logged_fields())
        return found


_FIELDS = _Fields()


class _LineWriter:
    """Writes lines as structlog does, without binding a logger and copying the fields for each: that would
    take as long as everything else.
    """

    def __init__(self) -> None:
        self._factory: LineLoggers | None = None
        self._logger: Any = None

    def write(self, level: str, fields: dict[str, Any]) -> None:
        """Write a line. `fields` has the event, and is changed."""
        config = structlog.get_config()
        factory, processors = config["logger_factory"], config["processors"]
        if not isinstance(factory, LineLoggers):
            getattr(log, level)(**fields)
            return
        if level not in factory.levels:
            return
        if factory is not self._factory:  # configured anew
            self._factory, self._logger = factory, factory(__name__)
        try:
            for process in processors:
                fields = process(self._logger, level, fields)
        except structlog.DropEvent:
            return
        getattr(self._logger, level)(fields)


_WRITER = _LineWriter()


def log_decision(decision: Decision) -> None:
    """Log a decision."""
    line = decision.line
    fields: dict[str, Any] = {}
    for attribute, name, logged in _FIELDS[type(decision)]:
        value = getattr(decision, attribute)
        if value is None and logged.optional:
            continue
        fields[name] = value if logged.write is None else logged.write(value)
    fields["event"] = line.event
    _WRITER.write(line.level, fields)
