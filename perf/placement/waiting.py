"""Claims that wait instead of being refused: whenever something ends, the oldest that fits is placed."""

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from perf.placement.cluster import Cluster, Kind, Running
from perf.placement.loss_system import Arrival
from perf.workload import Progress

Runs = Callable[[Arrival, Running], tuple[float, float]]
"""How long a claim runs and what it is worth meanwhile, which may depend on what it got"""


@dataclass(slots=True)
class Waited:
    """What one run gives."""

    waits: list[float] = field(default_factory=list)
    """Of each claim, in the order in which they were placed"""
    in_use: float = 0.0
    """Worth x time until the last arrival"""
    until: float = 0.0
    """When the last claim ended"""

    def to_json(self) -> dict[str, Any]:
        """The figures of the run, in the unit of time of the arrivals."""
        return {
            "mean_wait": float(np.mean(self.waits)),
            "p95_wait": float(np.percentile(self.waits, 95)),
            "makespan": self.until,
        }


def play(
    cluster: Cluster,
    kinds: Sequence[Kind],
    arriving: Sequence[Arrival],
    progress: Progress,
    *,
    running: Runs = lambda arrival, placed: (arrival.lasting, placed.kind.worth),
    count_from: float = 0.0,
) -> Waited:
    """Play all arrivals, until the last one has ended. `in_use` counts from some time on."""
    waiting: list[deque[int]] = [deque() for _ in kinds]
    leaving: list[tuple[float, int, Running]] = []
    waited, number, end = Waited(), 0, arriving[-1].at
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
            lasting, worth = running(arriving[at], placed)
            until = now + lasting
            heapq.heappush(leaving, (until, at, placed))
            waited.waits.append(now - arriving[at].at)
            counted = min(until, end) - max(now, count_from)
            waited.in_use += worth * max(counted, 0.0)
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
