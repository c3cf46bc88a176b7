"""Signals about pods that could move so that more fits."""

from reconciler.control.relocation.moves import MovesAdvice, StandingAdvice
from reconciler.operations.metrics import catalogue as of
from reconciler.operations.metrics.scraping import by
from reconciler.operations.page.sources import Fact
from reconciler.operations.telemetry.signals import Signals

TITLE = "Moves for more room"


def moves_signals(standing: StandingAdvice) -> Signals:
    """The standing advice as metrics, on the page and in `/statusz`."""
    return Signals(
        readings=[by(of.MOVES_GAIN, standing.gains), by(of.MOVES_ADVISED, standing.moves)],
        facts=[lambda: _fact(standing)],
        sections={TITLE: lambda: [(one.goal, _told_in_full(one, standing)) for one in standing.lines]},
    )


def _fact(standing: StandingAdvice) -> Fact:
    """A panel of the page has the moves."""
    texts = [_told(one, standing) for one in standing.lines if one.moves]
    return Fact(TITLE, "; ".join(texts) or "no plan now")


def _told_in_full(advice: MovesAdvice, standing: StandingAdvice) -> str:
    """With each move: `...: pod a from n0 to n1, ...`"""
    moves = f": {', '.join(map(str, advice.moves))}" if advice.moves else ""
    return f"{_told(advice, standing)}{moves}"


def _told(advice: MovesAdvice, standing: StandingAdvice) -> str:
    """`device of whole: 3 instead of 1 after 2 moves`"""
    if not advice.moves:
        return advice.why or f"{advice.before} of {advice.counted}: nothing to do"
    count = len(advice.moves)
    note = " (budgets not considered)" if standing.without_budgets else ""
    plural = "" if count == 1 else "s"
    return f"{advice.counted}: {advice.after} instead of {advice.before} after {count} move{plural}{note}"
