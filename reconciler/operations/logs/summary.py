"""What many lines say together."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from typing import Any

from reconciler.operations.logs.reading import Line

SLOWEST = 10
PERCENTILES = (50, 90, 99)


@dataclass(slots=True)
class Summary:
    """Counts and latencies of some lines."""

    events: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    """Reason -> refusals; a claim that is refused twice for one reason is told once"""
    waiting: dict[str, str] = field(default_factory=dict)
    """Claim -> reason for which it waited last, if nothing was allocated since"""
    durations: list[float] = field(default_factory=list)
    """Milliseconds of allocations, in order"""
    slowest: list[Line] = field(default_factory=list)
    causes: Counter[str] = field(default_factory=Counter)
    """Why turns were repeated"""
    problems: Counter[str] = field(default_factory=Counter)
    """Warnings and errors by event"""

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


def summed_up(lines: Iterable[Line]) -> Summary:
    """The summary of some lines in order of time."""
    found, timed = Summary(), []
    for line in lines:
        found.events[line.event] += 1
        if line.level in ("warning", "error"):
            found.problems[line.event] += 1
        if line.event == "claim waits":
            reason = str(line.fields.get("reason", ""))
            found.reasons[reason] += 1
            found.waiting.update(dict.fromkeys(line.claims, reason))
        elif line.event == "claim allocated":
            for claim in line.claims:
                found.waiting.pop(claim, None)
        elif line.event == "turn to be repeated":
            found.causes[str(line.fields.get("cause", "retry"))] += 1
        if line.milliseconds is not None:
            found.durations.append(line.milliseconds)
            timed.append(line)
    found.slowest = nlargest(SLOWEST, timed, key=lambda line: line.milliseconds or 0.0)
    return found


def latencies(durations: Sequence[float]) -> dict[str, float]:
    """Percentiles by nearest rank, and the longest; empty if there are none."""
    if not durations:
        return {}
    ordered = sorted(durations)
    ranks = {f"p{p}": ordered[math.ceil(len(ordered) * p / 100) - 1] for p in PERCENTILES}
    return {**ranks, "max": ordered[-1]}
