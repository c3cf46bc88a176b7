"""All states of a GPU as tables, so that loads can be played without the engine: to learn, and for limits.

A state is the mask of its taken slots plus 256 x its taken slices. Placing a partition adds its code.
"""

import numpy as np

from kernels.types import Amounts, Mask
from perf.placement.profiles import PLACES, PROFILES, SLICES, SLOTS

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
