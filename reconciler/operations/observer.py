"""Shows operators what is decided: the log first, then metrics, traces and all other listeners."""

from collections.abc import Iterable
from contextlib import AbstractContextManager

from reconciler.control.decisions.declaration import Decision, Report
from reconciler.control.units import Unit
from reconciler.operations.logs.decision_log import log_decision
from reconciler.operations.metrics.meters import Meters
from reconciler.operations.metrics.tracing import NoTraces


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
