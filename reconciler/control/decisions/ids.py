"""Short names for decisions, so that log line, Event, metric and journal of one can be brought together."""

from collections.abc import Callable
from dataclasses import replace

from reconciler.control.decisions.decisions import Decision

LETTERS = "23456789bcdfghjkmnpqrstvwxz"
"""Easy to read out, and without vowels, so that no words come about."""
_PREFIX = 5


class Numbering:
    """Gives out names that differ within a run, and most likely between runs: `q7xkd-1`, `q7xkd-2`."""

    def __init__(self, random: Callable[[], float]) -> None:
        """`random` gives numbers in [0, 1); it alone decides what the names begin with."""
        self._prefix = "".join(LETTERS[int(random() * len(LETTERS))] for _ in range(_PREFIX))
        self._given = 0

    def __call__(self) -> str:
        """The next name: at most 16 letters in the first 2 ** 40 decisions."""
        self._given += 1
        return f"{self._prefix}-{self._given:x}"

    def named(self, decision: Decision) -> Decision:
        """The decision itself if it has a name, otherwise the same one with a new name."""
        return decision if decision.decision_id else replace(decision, decision_id=self())
