"""Reports reconciles, answers and decisions to the one observer that shows them to operators."""

from contextlib import AbstractContextManager
from typing import Protocol

from reconciler.control.decisions.decision import Decision
from reconciler.control.decisions.ids import Numbering
from reconciler.control.queueing.units import Unit


class Observer(Protocol):
    """Shows operators what is decided. Never raises, or the reconcile fails."""

    def reconciling(self, unit: Unit) -> AbstractContextManager[None]:
        """Entered for the time of one reconcile."""

    def on_answer(self, reason: str, seconds: float, decision_id: str) -> None:
        """A search ended after so many seconds. `reason` is empty when devices were granted."""

    def on_decision(self, decision: Decision) -> None:
        """A decision, with its name."""


class Reporter:
    """Names each decision, and passes it to the observer."""

    def __init__(self, names: Numbering, observer: Observer) -> None:
        self._names = names
        self._observer = observer

    def reconciling(self, unit: Unit) -> AbstractContextManager[None]:
        """Enter this for the time of one reconcile."""
        return self._observer.reconciling(unit)

    def answered(self, reason: str, seconds: float) -> str:
        """Report the end of a search, as `Observer.on_answer`. Returns the name of the decision."""
        name = self._names()
        self._observer.on_answer(reason, seconds, name)
        return name

    def report(self, decision: Decision) -> None:
        """Report a decision. It gets a name if it has none."""
        self._observer.on_decision(self._names.named(decision))
