"""Shows operators what is decided: one log line each, then metrics, traces and all other listeners."""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

import structlog

from reconciler.control.decisions.declaration import Decision, LoggedField, Report
from reconciler.control.units import Unit
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


@cache
def _logged_fields(kind: type[Decision]) -> tuple[LoggedField, ...]:
    return tuple(kind.logged_fields())


def log_decision(decision: Decision) -> None:
    """Log a decision."""
    line = decision.line
    fields: dict[str, Any] = {}
    for attribute, name, logged in _logged_fields(type(decision)):  # type: ignore[arg-type]
        value = getattr(decision, attribute)
        if value is None and logged.optional:
            continue
        fields[name] = value if logged.write is None else logged.write(value)
    getattr(log, line.level)(line.event, **fields)
