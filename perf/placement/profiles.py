"""MIG profiles of an A100 with 40 GB, and how often some mixes of claims ask for them."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from kernels.types import Amounts, Mask

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


CODES = 2**SLOTS * (SLICES + 1)
NEVER = np.iinfo(np.int64).max
FULLNESS = 2**16
"""As in `least-loss`: equal losses are ordered by what is left of all counters"""

CODE: Amounts = np.array(
    [
        (2 ** PROFILES[place.profile].slots - 1 << place.start) + 2**SLOTS * PROFILES[place.profile].slices
        for place in PLACES
    ],
    dtype=np.int64,
)
"""(P,) what a partition at each of `PLACES` adds to the state"""
OF_PROFILE = tuple(
    np.array([at for at, place in enumerate(PLACES) if place.profile == name]) for name in PROFILES
)
"""The places of each profile"""

_CODES = np.arange(CODES)
_TAKEN = _CODES % 2**SLOTS
_SLICES = _CODES // 2**SLOTS
OPEN: Mask = ((_TAKEN[:, None] & CODE % 2**SLOTS) == 0) & (_SLICES[:, None] + CODE // 2**SLOTS <= SLICES)
"""(S, P) whether a partition fits at a place of a GPU in this state"""
LEFT: Amounts = (
    1000 * sum(1 - (_TAKEN >> slot & 1) for slot in range(SLOTS)) + (SLICES - _SLICES) * 1000 // SLICES
)
"""(S,) thousandths left of all counters"""


def first_fit() -> tuple[Amounts, Amounts]:
    """(F, S) keys and places as in `preferences`: the first GPU with room, and there the first place."""
    keys, places = [], []
    for of_profile in OF_PROFILE:
        fits = OPEN[:, of_profile]
        keys.append(np.where(fits.any(axis=1), 0, NEVER))
        places.append(of_profile[fits.argmax(axis=1)])
    return np.stack(keys), np.stack(places)


def worth(weights: Amounts) -> Amounts:
    """(W, S) the weight of all places that are open in each state, from weights (W, P)."""
    found: Amounts = weights @ OPEN.T.astype(np.int64)
    return found


def preferences(worth: Amounts) -> tuple[Amounts, Amounts]:
    """(W, F, S) keys by which states are chosen for each profile, the least first, and (W, F, S) the place.

    worth (W, S)  of each state. The key is the worth that is lost, then what is left; `NEVER` where the
    profile does not fit.
    """
    keys, places = [], []
    for of_profile in OF_PROFILE:
        after = np.minimum(_CODES[:, None] + CODE[of_profile], CODES - 1)
        loss = np.where(OPEN[:, of_profile], worth[:, :, None] - worth[:, after], NEVER)
        least = loss.argmin(axis=2)
        key = np.take_along_axis(loss, least[:, :, None], axis=2)[:, :, 0]
        keys.append(np.where(key == NEVER, NEVER, np.where(key == NEVER, 0, key) * FULLNESS + LEFT))
        places.append(of_profile[least])
    return np.stack(keys, axis=1), np.stack(places, axis=1)
