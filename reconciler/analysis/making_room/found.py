"""What a search for the cheapest set of pods found."""

from dataclasses import dataclass

from reconciler.analysis.making_room.costs import NOTHING, Cost
from reconciler.analysis.making_room.units import Pods


@dataclass(frozen=True, slots=True)
class Found:
    """The cheapest set that was found."""

    pods: Pods | None
    """None if none was found"""
    proved: bool
    """Whether it is proved that none costs less, or that there is none"""
    bound: Cost = NOTHING
    """No set costs less"""
