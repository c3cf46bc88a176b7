"""Every decision gets its name, is logged, and is passed on to those who listen."""

from collections.abc import Sequence

from reconciler.operations.logs.decision_log import log_decision
from reconciler.reconcile.decisions import Answered, Decision, Tell
from reconciler.reconcile.numbering import Numbering


def announcing(names: Numbering, listeners: Sequence[Tell]) -> Tell:
    """What takes a decision to the log and then to each listener, in order."""

    def announce(decision: Decision) -> None:
        decision = names.named(decision)
        log_decision(decision)
        for listener in listeners:
            listener(decision)

    return announce


def both(first: Answered, second: Answered) -> Answered:
    """Tell both of the answer of a search."""

    def answered(reason: str, seconds: float, decision_id: str) -> None:
        first(reason, seconds, decision_id)
        second(reason, seconds, decision_id)

    return answered
