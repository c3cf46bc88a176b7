"""A loss system: claims arrive at random, run for some time, and are refused if nothing fits."""

import heapq
from collections import Counter, deque
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

    since: float
    """When the warm-up ends"""
    until: float
    """When the last claim arrives"""
    worth: float = 0.0
    """Worth x time of what was accepted since the warm-up, also of its time after the last arrival"""
    held: float = 0.0
    """Worth x time of all that ran between the warm-up and the last arrival"""
    asked: Counter[str] = field(default_factory=Counter)
    accepted: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, arriving: Sequence[Arrival], warm_up: int) -> "Played":
        """Nothing yet. The first `warm_up` arrivals do not count."""
        return cls(arriving[warm_up].at, arriving[-1].at)

    def count(self, arrival: Arrival, name: str, worth: float, *, accepted: bool) -> None:
        """Count one claim of a kind."""
        if accepted:
            ran = min(arrival.at + arrival.lasting, self.until) - max(arrival.at, self.since)
            self.held += worth * max(ran, 0.0)
        if arrival.at >= self.since:
            self.asked[name] += 1
            self.accepted[name] += accepted
            self.worth += worth * arrival.lasting * accepted

    def to_json(self, capacity: float) -> dict[str, Any]:
        """`capacity` is the worth of all devices."""
        of_all = capacity * (self.until - self.since)
        return {
            "in_use": self.worth / of_all,
            "held": self.held / of_all,
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
    played = Played.of(arriving, warm_up)
    for number, arrival in enumerate(arriving):
        while leaving and leaving[0][0] <= arrival.at:
            cluster.end(heapq.heappop(leaving)[2])
        kind = kinds[arrival.kind]
        running = cluster.place(kind, f"claim-{number}")
        if running is not None:
            heapq.heappush(leaving, (arrival.at + arrival.lasting, number, running))
        played.count(arrival, kind.name, kind.worth, accepted=running is not None)
        progress(number + 1, len(arriving))
    return played


@dataclass(slots=True)
class Waited:
    """What one run gives."""

    waits: list[float] = field(default_factory=list)
    """Of each claim, in the order in which they were placed"""
    until: float = 0.0
    """When the last claim ended"""

    def to_json(self) -> dict[str, Any]:
        """The figures of the run, in the unit of time of the arrivals."""
        return {
            "mean_wait": float(np.mean(self.waits)),
            "p95_wait": float(np.percentile(self.waits, 95)),
            "makespan": self.until,
        }


def play_queue(
    cluster: Cluster, kinds: Sequence[Kind], arriving: Sequence[Arrival], progress: Progress
) -> Waited:
    """Play all arrivals, until the last one has ended."""
    waiting: list[deque[int]] = [deque() for _ in kinds]
    leaving: list[tuple[float, int, Running]] = []
    waited, number = Waited(), 0
    while number < len(arriving) or leaving:
        now = min(
            arriving[number].at if number < len(arriving) else float("inf"),
            leaving[0][0] if leaving else float("inf"),
        )
        while leaving and leaving[0][0] <= now:
            cluster.end(heapq.heappop(leaving)[2])
        while number < len(arriving) and arriving[number].at <= now:
            waiting[arriving[number].kind].append(number)
            number += 1
        for at, placed in _placed(cluster, kinds, waiting):
            until = now + arriving[at].lasting
            heapq.heappush(leaving, (until, at, placed))
            waited.waits.append(now - arriving[at].at)
            waited.until = max(waited.until, until)
        progress(len(waited.waits), len(arriving))
    return waited


def _placed(
    cluster: Cluster, kinds: Sequence[Kind], waiting: Sequence[deque[int]]
) -> list[tuple[int, Running]]:
    """What could be placed now, the oldest first. After a refusal no other claim of that kind is tried."""
    placed = []
    heads = [(queue[0], kind) for kind, queue in enumerate(waiting) if queue]
    heapq.heapify(heads)
    while heads:
        at, kind = heapq.heappop(heads)
        running = cluster.place(kinds[kind], f"claim-{at}")
        if running is None:
            continue
        waiting[kind].popleft()
        placed.append((at, running))
        if waiting[kind]:
            heapq.heappush(heads, (waiting[kind][0], kind))
    return placed
