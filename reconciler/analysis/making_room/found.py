"""What a search for the cheapest set of pods found."""

from msgspec import Struct

from reconciler.analysis.making_room.costs import NOTHING, Cost
from reconciler.analysis.making_room.units import Pods


class Found(Struct, frozen=True):
    """The cheapest set that was found."""

    pods: Pods | None
    """None if none was found"""
    proved: bool
    """Whether it is proved that none costs less, or that there is none"""
    bound: Cost = NOTHING
    """No set costs less"""
