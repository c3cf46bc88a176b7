"""When to plan: after a calm time in which nothing changed, and only if something did since the last plan."""

from collections.abc import Hashable

PATIENCE = 10
"""Calm times after which advice is renewed although the fleet never rests"""


class Calm:
    """Told of the state again and again. Costs nothing while nothing changes."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._state: Hashable = None
        self._since = float("-inf")
        """When the state was first seen as it is"""
        self._planned: Hashable = None
        self._planned_at: float | None = None

    def due(self, state: Hashable, now: float) -> bool:
        """Whether it is time for a plan."""
        if state != self._state:
            self._state, self._since = state, now
        if self._planned_at is None:
            self._planned_at = now  # from here on the patience counts
        if state == self._planned:
            return False
        return self.rests(now) or now - self._planned_at >= PATIENCE * self._seconds

    def rests(self, now: float) -> bool:
        """Whether nothing has changed for a calm time."""
        return now - self._since >= self._seconds

    def planned(self, state: Hashable, began: float, now: float) -> None:
        """A plan was made from a state. One that did not rest is planned once more when it does."""
        self._planned, self._planned_at = state if self.rests(began) else None, now

    def again(self) -> None:
        """Plan once more, although nothing changed."""
        self._planned = None
