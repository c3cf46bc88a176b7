"""The answer to a question about room, as values. The command presents it."""

from collections.abc import Mapping

from msgspec import Struct

from reconciler.analysis.attempt import NoFit
from reconciler.analysis.making_room.costs import NOTHING, Cost
from reconciler.analysis.making_room.moves import Move
from reconciler.analysis.making_room.wanted import Place
from reconciler.api.objects.meta import DeviceID, ObjectKey

COSTS = ("violations", "highestPriority", "priorities", "pods", "started", "devices", "names")
"""The costs in the order in which they are compared"""


class Advice(Struct, frozen=True):
    """Who has to leave so that something fits."""

    wanted: str
    """For people: `pod default/a`"""
    priority: int
    places: tuple[Place, ...] = ()
    """Where it fits then; empty if it does not"""
    victims: tuple[ObjectKey, ...] = ()
    moves: tuple[Move, ...] = ()
    """Each unit of victims, and where it could go"""
    devices: Mapping[ObjectKey, tuple[DeviceID, ...]] | None = None
    """Claim of a victim -> the devices that it held"""
    leaving: tuple[ObjectKey, ...] = ()
    """Pods that are being deleted already: they count as gone"""
    cost: Cost = NOTHING
    bound: Cost = NOTHING
    """No set costs less than this, as far as it was searched"""
    violated: Mapping[ObjectKey, int] | None = None
    """Budget -> evictions beyond what it allows"""
    optimal: bool = False
    """Whether it is proved that no set costs less; if there is no place, that no set exists"""
    refusal: NoFit | None = None
    """Why there is no place"""
    tries: int = 0
    """Sets that were tried"""

    @property
    def fits(self) -> bool:
        """Whether it fits when the victims are gone."""
        return self.refusal is None

    @property
    def proved(self) -> tuple[str, ...]:
        """The first costs that are proved to be the least."""
        if self.optimal:
            return COSTS
        same = 0
        while same < len(COSTS) and self.cost[same] == self.bound[same]:
            same += 1
        return COSTS[:same]
