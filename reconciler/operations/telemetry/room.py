"""Signals about pods that would have to leave for pending ones."""

from reconciler.control.relocation.candidates import RoomLine, StandingRoom
from reconciler.operations.metrics import catalogue as of
from reconciler.operations.metrics.scraping import by
from reconciler.operations.page.sources import Fact
from reconciler.operations.telemetry.signals import Signals

MOST = 5
"""Plans that the header of the page names; /statusz has all"""


def room_signals(standing: StandingRoom) -> Signals:
    """The standing advice as a metric, on the page and in `/statusz`."""
    return Signals(
        readings=[by(of.ROOM_ADVICE, standing.counts)],
        facts=[lambda: _fact(standing)],
        sections={"Room by evictions": lambda: [(str(one.unit), _told(one)) for one in standing.lines]},
    )


def _fact(standing: StandingRoom) -> Fact:
    lines = standing.lines
    texts = [f"{one.unit}: {_told(one)}" for one in lines[:MOST]]
    more = len(lines) - len(texts)
    return Fact(
        "Room by evictions", "; ".join([*texts, *([f"{more} more"] if more > 0 else [])]) or "no plan now"
    )


def _told(line: RoomLine) -> str:
    plan = line.plan
    pods = ", ".join(str(victim.key) for victim in plan.victims)
    nodes = ", ".join(dict.fromkeys(place.node for place in plan.places))
    return f"on {nodes} without {pods}" + (f" (not evicted: {plan.advice})" if plan.advice else "")
