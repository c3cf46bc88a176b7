"""What a loss system could use if all partitions might move at each arrival: the limit for every policy.

A claim is accepted if a linear program fits it and all that run on the GPUs, in fractions of a GPU's possible
fillings. Whole GPUs may fit a little less, so this is an upper bound. The program is solved once for all
claims: its dual has few vertices, and what fits costs at most all GPUs at the prices of each of them.
"""

import heapq
from collections.abc import Sequence
from functools import cache
from itertools import combinations

import numpy as np

from perf.placement.loss_system import Arrival, Played
from perf.placement.profiles import PLACES, PROFILES
from perf.placement.states import CODE, OPEN
from perf.workload import Progress

TOLERANCE = 1e-9
_NAMES = list(PROFILES)
_CODE = CODE.tolist()


def fillings() -> np.ndarray:
    """(K, F) how many partitions of each profile one GPU can hold together, only what cannot be extended."""
    seen = {(0, (0,) * len(_NAMES))}
    stack = list(seen)
    while stack:
        state, counts = stack.pop()
        for at in np.flatnonzero(OPEN[state]).tolist():
            profile = _NAMES.index(PLACES[at].profile)
            more = tuple(count + (of == profile) for of, count in enumerate(counts))
            if (one := (state + _CODE[at], more)) not in seen:
                seen.add(one)
                stack.append(one)
    found = np.unique([counts for _, counts in seen], axis=0)
    extended = (found[:, None] <= found[None]).all(axis=2).sum(axis=1) > 1
    return found[~extended]


@cache
def prices() -> np.ndarray:
    """(V, F) the parts of a GPU that each profile costs, so that no filling costs more than one GPU.

    All vertices of these constraints that no other vertex exceeds in every price.
    """
    filled = fillings().astype(np.float64)
    count = filled.shape[1]
    rows = np.concatenate([filled, -np.eye(count)])
    limits = np.concatenate([np.ones(len(filled)), np.zeros(count)])
    chosen = np.array(list(combinations(range(len(rows)), count)))
    matrices, right = rows[chosen], limits[chosen]
    solvable = np.abs(np.linalg.det(matrices)) > TOLERANCE
    found = np.linalg.solve(matrices[solvable], right[solvable][:, :, None])[:, :, 0]
    found = found[(found @ rows.T <= limits + TOLERANCE).all(axis=1)]
    found = np.unique(np.round(found, 9), axis=0)
    exceeded = (found[:, None] <= found[None] + TOLERANCE).all(axis=2).sum(axis=1) > 1
    return found[~exceeded]


def play(arriving: Sequence[Arrival], gpus: int, warm_up: int, progress: Progress) -> Played:
    """Play all arrivals; the first `warm_up` do not count."""
    shapes, cost = list(PROFILES.values()), prices()
    spent = np.zeros(len(cost))
    leaving: list[tuple[float, int]] = []
    played = Played(time=arriving[-1].at - arriving[warm_up].at)
    for number, (now, kind, lasting) in enumerate(arriving):
        while leaving and leaving[0][0] <= now:
            spent -= cost[:, heapq.heappop(leaving)[1]]
        fits = bool((spent + cost[:, kind]).max() <= gpus + 1e-6)  # sums of many prices
        if fits:
            spent += cost[:, kind]
            heapq.heappush(leaving, (now + lasting, kind))
        if number >= warm_up:
            played.asked[_NAMES[kind]] += 1
            played.accepted[_NAMES[kind]] += fits
            played.worth += shapes[kind].slices * lasting * fits
        progress(number + 1, len(arriving))
    return played
