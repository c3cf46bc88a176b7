"""Chances of a random world, which enables some features only."""

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from reconciler.api.objects.semantics import Semantics

Draw = st.DrawFn


@dataclass(frozen=True)
class Dice:
    """Draws, and the features that are on in this world."""

    draw: Draw
    features: frozenset[str]
    rules: Semantics
    busy: bool
    """More devices and requests, fewer reasons that exclude a device from the start"""

    def chance(self, percent: int, *features: str) -> bool:
        """False unless all of the features are on."""
        if not self.features.issuperset(features):
            return False
        return self.draw(st.integers(0, 99)) >= 100 - percent

    def among(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def one_of(self, options: Any) -> Any:
        return self.draw(st.sampled_from(tuple(options)))

    def some_of(self, options: Any, most: int) -> list[Any]:
        places = self.draw(st.lists(st.integers(0, len(options) - 1), max_size=most, unique=True))
        return [options[at] for at in places]
