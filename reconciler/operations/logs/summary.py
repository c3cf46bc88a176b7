"""Counts and latencies of log lines."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from heapq import nlargest
from typing import Any

from msgspec import Struct, field

from reconciler.operations.logs.reading import Line

SLOWEST = 10
PERCENTILES = (50, 90, 99)


class Summary(Struct):
    """Counts and latencies."""

    events: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    """Reason -> refusals; repeated refusals of a claim for the same reason count once"""
    waiting: dict[str, str] = field(default_factory=dict)
    """Pending claim -> its latest reason"""
    durations: list[float] = field(default_factory=list)
    """Milliseconds of allocations, in order"""
    slowest: list[Line] = field(default_factory=list)
    causes: Counter[str] = field(default_factory=Counter)
    """Cause of a retry -> retries"""
    problems: Counter[str] = field(default_factory=Counter)
    """Event -> its warnings and errors"""

    def as_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "events": dict(self.events),
            "refusals": dict(self.reasons),
            "waiting": dict(Counter(self.waiting.values())),
            "latency_ms": latencies(self.durations),
            "slowest": [dict(line.fields) for line in self.slowest],
            "repeated": dict(self.causes),
            "problems": dict(self.problems),
        }


def summarize(lines: Iterable[Line]) -> Summary:
    """The summary of lines that are ordered by time."""
    found, timed = Summary(), []
    for line in lines:
        found.events[line.event] += 1
        if line.level in ("warning", "error"):
            found.problems[line.event] += 1
        if line.event == "claim pending":
            reason = str(line.fields.get("reason", ""))
            found.reasons[reason] += 1
            found.waiting.update(dict.fromkeys(line.claims, reason))
        elif line.event == "claim allocated":
            for claim in line.claims:
                found.waiting.pop(claim, None)
        elif line.event == "reconcile will be retried":
            found.causes[str(line.fields.get("cause", "retry"))] += 1
        if line.milliseconds is not None:
            found.durations.append(line.milliseconds)
            timed.append(line)
    found.slowest = nlargest(SLOWEST, timed, key=lambda line: line.milliseconds or 0.0)
    return found


def latencies(durations: Sequence[float]) -> dict[str, float]:
    """Nearest-rank percentiles and the maximum; empty without durations."""
    if not durations:
        return {}
    ordered = sorted(durations)
    ranks = {f"p{p}": ordered[math.ceil(len(ordered) * p / 100) - 1] for p in PERCENTILES}
    return {**ranks, "max": ordered[-1]}
