"""Reads log lines again: what they are about, counts and latencies. Skips lines of other programs."""

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from heapq import nlargest
from typing import Any

from msgspec import Struct, field

from reconciler.operations.logs.catalogue import EVENTS

MAX_LENGTH = 2**20
"""Characters; longer lines are skipped"""


class Line(Struct, frozen=True):
    """One log line of the reconciler."""

    at: datetime
    event: str
    level: str
    fields: dict[str, Any]

    @property
    def claims(self) -> tuple[str, ...]:
        """The claims of the line, as NAMESPACE/NAME."""
        named = self.fields.get("claims")
        found = [str(name) for name in named] if isinstance(named, list) else []
        if isinstance(claim := self.fields.get("claim"), str):
            found.append(claim)
        kind, _, name = str(self.fields.get("unit", "")).partition(" ")
        return (*found, name) if kind == "claim" else tuple(found)

    @property
    def pods(self) -> tuple[str, ...]:
        """The pods of the line, as NAMESPACE/NAME."""
        named = self.fields.get("pods")
        found = [str(name) for name in named] if isinstance(named, list) else []
        if isinstance(pod := self.fields.get("pod"), str):
            found.append(pod)
        kind, _, name = str(self.fields.get("unit", "")).partition(" ")
        return (*found, name) if kind == "pod" else tuple(found)

    @property
    def decision(self) -> str:
        """The id of the decision; empty if none."""
        return str(self.fields.get("decision_id", ""))

    @property
    def milliseconds(self) -> float | None:
        """Duration of the decision, if the line has one."""
        found = self.fields.get("duration_ms")
        return float(found) if isinstance(found, int | float) and not isinstance(found, bool) else None


class Reader:
    """Reads lines, and counts those of other programs."""

    def __init__(self) -> None:
        self.foreign = 0

    def read(self, texts: Iterable[str]) -> Iterator[Line]:
        """The lines of the reconciler, in order. Raises for no content."""
        for text in texts:
            line = _line(text)
            if line is not None:
                yield line
            elif text.strip():
                self.foreign += 1


def _line(text: str) -> Line | None:
    start = text.find("{")  # kubectl logs --prefix writes a prefix
    if start < 0 or len(text) > MAX_LENGTH:
        return None
    try:
        raw = json.loads(text[start:])
        at = datetime.fromisoformat(raw["timestamp"])
        event, level = raw["event"], raw["level"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if not isinstance(event, str) or event not in EVENTS or at.tzinfo is None:
        return None
    return Line(at, event, str(level), raw)


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
        elif line.event in ("claim allocated", "claim deleted"):
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
