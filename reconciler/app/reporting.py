"""Every decision gets a name, is logged, and is passed on to the listeners."""

from collections.abc import Sequence
from dataclasses import dataclass

from reconciler.control.decisions.decisions import Answered, Decision, Tell
from reconciler.control.decisions.ids import Numbering
from reconciler.control.queueing.pending import Pending
from reconciler.operations.logs.decision_log import log_decision


@dataclass(frozen=True, slots=True)
class Reporting:
    """How the parts that decide report what they decide."""

    names: Numbering
    report: Tell
    pending: Pending
    """Why claims are pending, as it was reported"""


def reporting(names: Numbering, listeners: Sequence[Tell], pending: Pending) -> Reporting:
    """Reports go to the log first, then to each listener, in order."""

    def report(decision: Decision) -> None:
        decision = names.named(decision)
        log_decision(decision)
        for listener in listeners:
            listener(decision)

    return Reporting(names, report, pending)


def both(first: Answered, second: Answered) -> Answered:
    """Report the answer of a search to both."""

    def answered(reason: str, seconds: float, decision_id: str) -> None:
        first(reason, seconds, decision_id)
        second(reason, seconds, decision_id)

    return answered
