"""Short names for decisions, which connect the log line, Event, metric and journal of each one."""

from collections.abc import Callable
from dataclasses import replace

from reconciler.control.decisions.decision import Decision

LETTERS = "23456789bcdfghjkmnpqrstvwxz"
"""Easy to read out, and without vowels, so that they form no words."""
_PREFIX = 5


class Numbering:
    """Creates names that are unique within a run, and most likely between runs: `q7xkd-1`, `q7xkd-2`."""

    def __init__(self, random: Callable[[], float]) -> None:
        """`random` returns numbers in [0, 1), which decide the prefix of the names."""
        self._prefix = "".join(LETTERS[int(random() * len(LETTERS))] for _ in range(_PREFIX))
        self._given = 0

    def __call__(self) -> str:
        """The next name: at most 16 characters in the first 2 ** 40 decisions."""
        self._given += 1
        return f"{self._prefix}-{self._given:x}"

    def named(self, decision: Decision) -> Decision:
        """The decision with a name: its own, or a new one if it has none."""
        return decision if decision.decision_id else replace(decision, decision_id=self())
