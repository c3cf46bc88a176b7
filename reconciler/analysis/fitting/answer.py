"""The answer as values: how many pods of each set fit, where, and what is short."""

from msgspec import Struct

from reconciler.api.objects.meta import DeviceID


class Seat(Struct, frozen=True):
    """A place for one pod."""

    node: str
    devices: tuple[DeviceID, ...]
    """For its own claims, in their order"""


class Short(Struct, frozen=True):
    """Why a set does not fit as a whole."""

    reason: str
    """An identifier of `reasons`"""
    message: str
    lacks: tuple[tuple[str, int], ...] = ()
    """What is short for the whole set in the best domain, with amounts"""


class SetFit(Struct, frozen=True):
    """One set of pods."""

    name: str
    count: int
    seats: tuple[Seat, ...]
    """At most `count`; none if fewer fit than the set needs at least"""
    domain: tuple[tuple[str, str], ...] = ()
    """The tiers that are met, each with the value that all seats share"""
    short: Short | None = None
    """None if all fit"""

    @property
    def fits(self) -> int:
        """How many pods fit."""
        return len(self.seats)


class Fit(Struct, frozen=True):
    """The whole answer. All seats are possible at the same time."""

    sets: tuple[SetFit, ...]

    @property
    def all_fit(self) -> bool:
        """Whether each set fits as a whole."""
        return all(one.short is None for one in self.sets)
