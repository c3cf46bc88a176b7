"""Signals about pods that could move so that more fits."""

from reconciler.control.rebalancing.advice import Advice
from reconciler.control.rebalancing.standing import StandingAdvice
from reconciler.operations.metrics import catalogue as of
from reconciler.operations.metrics.scraping import by
from reconciler.operations.page.sources import Fact
from reconciler.operations.telemetry.signals import Signals

TITLE = "Moves for more room"
MOST = 5
"""Moves of a goal that the header of the page names; /statusz has all"""


def moves_signals(standing: StandingAdvice) -> Signals:
    """The standing advice as metrics, on the page and in `/statusz`."""
    return Signals(
        readings=[by(of.MOVES_GAIN, standing.gains), by(of.MOVES_ADVISED, standing.moves)],
        facts=[lambda: _fact(standing)],
        sections={
            TITLE: lambda: [
                (one.goal, _told(one, len(one.moves), without_budgets=standing.without_budgets))
                for one in standing.lines
            ]
        },
    )


def _fact(standing: StandingAdvice) -> Fact:
    advised = [one for one in standing.lines if one.moves]
    texts = [_told(one, MOST, without_budgets=standing.without_budgets) for one in advised]
    return Fact(TITLE, "; ".join(texts) or "no plan now")


def _told(advice: Advice, most: int, *, without_budgets: bool) -> str:
    """`2 moves: 3 devices of whole, not 1: pod a from n0 to n1, ...`"""
    if not advice.moves:
        return advice.why or f"{advice.before} of {advice.counted}: nothing to do"
    count, after = len(advice.moves), advice.after
    moves = ", ".join(map(str, advice.moves[:most]))
    more = f" and {count - most} more" if count > most else ""
    note = " (budgets not considered)" if without_budgets else ""
    return (
        f"{advice.counted}: {after} instead of {advice.before} after {count} "
        f"move{'' if count == 1 else 's'}: {moves}{more}{note}"
    )
