"""Scores of devices and nodes for a request (KOO-18, KOO-19)."""

from collections.abc import Iterable

from reconciler.api.koordinator.amounts import Shares, plus
from reconciler.state.koordinator.rules import Scoring, Strategy

FULL = 100


def device_score(scoring: Scoring | None, wanted: Shares, total: Shares, free: Shares) -> int:
    """0 to 100 by the utilization of the device with the request: the weighted mean over its resources."""
    if scoring is None:
        return 0
    weighed = weight_sum = 0
    for name, weight in scoring.weights.items():
        capacity = total.get(name, 0)
        if capacity <= 0:
            continue
        available = free.get(name, 0)
        would_use = capacity - available + wanted.get(name, 0) if available <= capacity else capacity
        weighed += weight * _part(scoring.strategy, would_use, capacity)
        weight_sum += weight
    return weighed // weight_sum if weight_sum else 0


def summed(amounts: Iterable[Shares]) -> dict[str, int]:
    """The sum of the shares of several devices."""
    total: dict[str, int] = {}
    for shares in amounts:
        total = plus(total, shares)
    return total


def _part(strategy: Strategy, used: int, capacity: int) -> int:
    if strategy is Strategy.MOST:
        return min(used, capacity) * FULL // capacity
    return 0 if used > capacity else (capacity - used) * FULL // capacity
