"""What a loss system could use if all partitions might move at each arrival: the limit for every policy.

A claim is accepted if it and all that run cost no more than all GPUs, whichever of some prices is taken.
Nothing that one GPU can hold together costs more than one GPU, so what costs more does not fit. Whole GPUs
may fit a little less: this is an upper bound.
"""

import heapq
from collections.abc import Sequence

import numpy as np

from perf.placement.loss_system import Arrival, Played
from perf.placement.profiles import CODE, OPEN, PLACES, PROFILES
from perf.workload import Progress

PRICES = np.array(
    [
        [1, 1 / 2, 1 / 2, 1 / 4, 1 / 4, 1 / 8],  # memory slots
        [1, 4 / 7, 3 / 7, 2 / 7, 1 / 7, 1 / 7],  # compute slices
        [1, 2 / 3, 1 / 3, 1 / 3, 0, 0],  # three 2g, or a 4g with one, or a 3g with two
        [1, 1, 0, 0, 0, 0],  # one 4g
    ]
)
"""(V, F) the parts of a GPU that each profile costs: the vertices of the dual of the linear program that
fills GPUs, without those that another one exceeds in every price"""
ROUNDING = 1e-6
"""Of a sum of many prices"""
_NAMES = list(PROFILES)


def fillings() -> set[tuple[int, ...]]:
    """How many partitions of each profile one GPU can hold together."""
    seen = {(0, (0,) * len(_NAMES))}
    stack = list(seen)
    while stack:
        state, counts = stack.pop()
        for at in np.flatnonzero(OPEN[state]).tolist():
            profile = _NAMES.index(PLACES[at].profile)
            more = tuple(count + (of == profile) for of, count in enumerate(counts))
            if (one := (state + int(CODE[at]), more)) not in seen:
                seen.add(one)
                stack.append(one)
    return {counts for _, counts in seen}


def play(arriving: Sequence[Arrival], gpus: int, warm_up: int, progress: Progress) -> Played:
    """Play all arrivals; the first `warm_up` do not count."""
    shapes = list(PROFILES.values())
    spent = np.zeros(len(PRICES))
    leaving: list[tuple[float, int]] = []
    played = Played.of(arriving, warm_up)
    for number, arrival in enumerate(arriving):
        now, kind, lasting = arrival
        while leaving and leaving[0][0] <= now:
            spent -= PRICES[:, heapq.heappop(leaving)[1]]
        fits = bool((spent + PRICES[:, kind]).max() <= gpus + ROUNDING)
        if fits:
            spent += PRICES[:, kind]
            heapq.heappush(leaving, (now + lasting, kind))
        played.count(arrival, _NAMES[kind], shapes[kind].slices, accepted=fits)
        progress(number + 1, len(arriving))
    return played
