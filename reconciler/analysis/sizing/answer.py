"""The answer as values: what fits now, and which nodes the rest needs."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from msgspec import Struct

from reconciler.analysis.attempt import NoFit
from reconciler.analysis.sizing.demand import Item
from reconciler.analysis.sizing.patterns import Pattern


class ItemAnswer(Struct, frozen=True):
    """One item of the demand."""

    item: Item
    placed: int
    """How many fit on the fleet as it is, together with the others"""
    refused: NoFit | None
    """Why the next one does not fit on the fleet; None if all fit"""
    served_by: tuple[str, ...]
    """Shapes of which an empty node holds at least one"""
    refused_by: Mapping[str, NoFit]
    """Shape -> why an empty node of it does not hold even one"""

    @property
    def left(self) -> int:
        """How many need new nodes."""
        return self.item.count - self.placed


@dataclass(frozen=True, slots=True)
class Group:
    """Equal new nodes."""

    shape: str
    nodes: int
    holds: Pattern
    """How many of each item one of them holds"""


class Option(Struct, frozen=True):
    """Nodes that hold all that does not fit on the fleet."""

    groups: tuple[Group, ...]
    cost: Fraction
    at_least: Fraction
    """No nodes of the shapes that were considered for this option cost less; at most `cost`"""

    @property
    def nodes(self) -> dict[str, int]:
        """Shape -> number of nodes."""
        found: dict[str, int] = {}
        for group in self.groups:
            found[group.shape] = found.get(group.shape, 0) + group.nodes
        return found

    @property
    def optimal(self) -> bool:
        """Whether it is proven that nothing is cheaper."""
        return self.cost == self.at_least


class Sizing(Struct, frozen=True):
    """The whole answer."""

    items: tuple[ItemAnswer, ...]
    options: tuple[Option, ...]
    """The cheapest first; with equal costs the one with the fewest nodes. Empty if nothing is needed"""

    @property
    def fits_now(self) -> bool:
        """Whether the fleet has room for all of it."""
        return not any(one.left for one in self.items)

    @property
    def unserved(self) -> tuple[ItemAnswer, ...]:
        """Items that are left and that no shape holds."""
        return tuple(one for one in self.items if one.left and not one.served_by)

    @property
    def answered(self) -> bool:
        """Whether everything fits, now or on the nodes of an option."""
        return self.fits_now or bool(self.options)
