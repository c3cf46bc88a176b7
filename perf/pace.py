"""How fast claims were done one after another, by the clock and by the processor time of this process."""

from collections.abc import Sequence
from typing import NamedTuple

WARM_UP = 10
"""One in so many claims, from the first, does not count: connections open, caches are built"""


class Pace(NamedTuple):
    """Of one burst of claims."""

    rate: float
    """Claims a second"""
    spent: float
    """Seconds of processor time of this process for a claim"""

    @classmethod
    def of(cls, done: Sequence[tuple[float, float]]) -> "Pace":
        """`done` is when each claim was done, by `perf_counter` and `process_time`: two or more, in order."""
        first = min(len(done) // WARM_UP, len(done) - 2)
        claims = len(done) - 1 - first
        (began, before), (ended, after) = done[first], done[-1]
        return cls(claims / (ended - began), (after - before) / claims)
