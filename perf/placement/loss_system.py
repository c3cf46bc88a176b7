"""A loss system: claims arrive at random, run for some time, and are refused if nothing fits."""

import heapq
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from perf.placement.cluster import Cluster, Kind, Running
from perf.workload import Progress


class Arrival(NamedTuple):
    """One claim."""

    at: float
    kind: int
    lasting: float


@dataclass(slots=True)
class Played:
    """What one run gives. The arrivals of the warm-up do not count."""

    time: float
    worth: float = 0.0
    """Worth x time of what was accepted"""
    asked: Counter[str] = field(default_factory=Counter)
    accepted: Counter[str] = field(default_factory=Counter)

    def to_json(self, capacity: float) -> dict[str, Any]:
        """`capacity` is the worth of all devices."""
        return {
            "in_use": self.worth / (capacity * self.time),
            "accepted": self.accepted.total() / max(self.asked.total(), 1),
            "by_kind": {name: self.accepted[name] / asked for name, asked in sorted(self.asked.items())},
        }


def arrivals(count: int, gap: float, shares: Sequence[float], seed: int) -> list[Arrival]:
    """Poisson arrivals of kinds with some shares; durations are exponential with mean 1.

    gap  mean time between two
    """
    random = np.random.default_rng(seed)
    times = np.cumsum(random.exponential(gap, count)).tolist()
    weights = np.array(shares, dtype=np.float64)
    kinds = random.choice(len(shares), count, p=weights / weights.sum()).tolist()
    lasting = random.exponential(1.0, count).tolist()
    return list(map(Arrival, times, kinds, lasting))


def play(
    cluster: Cluster, kinds: Sequence[Kind], arriving: Sequence[Arrival], warm_up: int, progress: Progress
) -> Played:
    """Play all arrivals; the first `warm_up` do not count."""
    leaving: list[tuple[float, int, Running]] = []
    played = Played(time=arriving[-1].at - arriving[warm_up].at)
    for number, (now, at, lasting) in enumerate(arriving):
        while leaving and leaving[0][0] <= now:
            cluster.end(heapq.heappop(leaving)[2])
        kind = kinds[at]
        running = cluster.place(kind, f"claim-{number}")
        if running is not None:
            heapq.heappush(leaving, (now + lasting, number, running))
        if number >= warm_up:
            played.asked[kind.name] += 1
            played.accepted[kind.name] += running is not None
            played.worth += kind.worth * lasting * (running is not None)
        progress(number + 1, len(arriving))
    return played
