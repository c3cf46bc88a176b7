"""MIG profiles of an A100 with 40 GB, and how often some mixes of claims ask for them."""

from collections.abc import Mapping
from typing import NamedTuple

SLICES = 7
"""Compute slices of a GPU"""
SLOTS = 8
"""Memory slots of a GPU"""


class Profile(NamedTuple):
    """What a partition takes, and where it may start."""

    slots: int
    slices: int
    starts: tuple[int, ...]

    @property
    def size(self) -> float:
        """The part of a GPU that it takes."""
        return max(self.slots / SLOTS, self.slices / SLICES)


class Place(NamedTuple):
    """A partition at a fixed place of a GPU."""

    profile: str
    start: int


PROFILES = {
    "7g.40gb": Profile(8, 7, (0,)),
    "4g.20gb": Profile(4, 4, (0,)),
    "3g.20gb": Profile(4, 3, (0, 4)),
    "2g.10gb": Profile(2, 2, (0, 2, 4)),
    "1g.10gb": Profile(2, 1, (0, 2, 4, 6)),
    "1g.5gb": Profile(1, 1, (0, 1, 2, 3, 4, 5, 6)),
}
PLACES = tuple(Place(name, start) for name, shape in PROFILES.items() for start in shape.starts)

MIXES: Mapping[str, tuple[int, ...]] = {
    "uniform": (1, 1, 1, 1, 1, 1),
    "small": (5, 10, 10, 20, 25, 30),
    "big": (30, 25, 20, 10, 10, 5),
    "bimodal": (30, 15, 5, 5, 15, 30),
    "mixed": (10, 0, 20, 30, 0, 40),
}
"""How often each profile is asked for, in the order of `PROFILES`"""


def mean_size(mix: str) -> float:
    """GPUs that a claim of the mix takes."""
    weights = MIXES[mix]
    sizes = (shape.size for shape in PROFILES.values())
    return sum(weight * size for weight, size in zip(weights, sizes, strict=True)) / sum(weights)
