"""Log lines back into values. What is no line of ours is counted and left alone."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from reconciler.operations.logs.catalogue import EVENTS

MAX_LENGTH = 2**20
"""Characters of a line that is read."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of ours."""

    at: datetime
    event: str
    level: str
    fields: dict[str, Any]

    @property
    def claims(self) -> tuple[str, ...]:
        """The claims it is about, as NAMESPACE/NAME."""
        named = self.fields.get("claims")
        found = [str(name) for name in named] if isinstance(named, list) else []
        if isinstance(claim := self.fields.get("claim"), str):
            found.append(claim)
        kind, _, name = str(self.fields.get("unit", "")).partition(" ")
        return (*found, name) if kind == "claim" else tuple(found)

    @property
    def pod(self) -> str:
        """The pod it is about, empty if none."""
        kind, _, name = str(self.fields.get("unit", "")).partition(" ")
        return name if kind == "pod" else str(self.fields.get("pod", ""))

    @property
    def decision(self) -> str:
        """The name of the decision, empty if none."""
        return str(self.fields.get("decision_id", ""))

    @property
    def milliseconds(self) -> float | None:
        """How long it took, where it says so."""
        found = self.fields.get("duration_ms")
        return float(found) if isinstance(found, int | float) and not isinstance(found, bool) else None


class Reader:
    """Reads lines, and counts those that are none of ours."""

    def __init__(self) -> None:
        self.foreign = 0

    def read(self, texts: Iterable[str]) -> Iterator[Line]:
        """The lines of ours, in order. Never raises for what is in them."""
        for text in texts:
            line = _line(text)
            if line is not None:
                yield line
            elif text.strip():
                self.foreign += 1


def _line(text: str) -> Line | None:
    start = text.find("{")  # kubectl logs --prefix and the like put something before it
    if start < 0 or len(text) > MAX_LENGTH:
        return None
    try:
        raw = json.loads(text[start:])
        at = datetime.fromisoformat(raw["timestamp"])
        event, level = raw["event"], raw["level"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if event not in EVENTS or at.tzinfo is None:
        return None
    return Line(at, event, str(level), raw)
