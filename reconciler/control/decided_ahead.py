"""Units that were decided in the turn of one before them, and wait for their own turn to be written.

A unit keeps its place in the queue. In its turn it is written, if a decision of its own would still give the
same: nothing else was decided, and nothing changed, since it was decided. Otherwise all such units are taken
back, and decided in their turns.
"""

from collections.abc import Hashable, Iterator
from typing import Any, NamedTuple

from reconciler.control.handler import Decided, Handler
from reconciler.control.units import Unit

FIRST, AGAIN, MOST, GROWTH = 64, 8, 256, 4
"""Units that are decided ahead at once: at first, after that was of no use, and at most. Whenever all of them
were written, GROWTH times as many follow. A pass takes half a millisecond however few units it has; one for
the largest number holds the event loop for 3 to 4 ms, with pods for 5 ms."""
LONGEST_REST = 64
"""Units that are decided alone after deciding ahead was of no use again and again"""


class Ahead(NamedTuple):
    """A unit that was decided ahead of its turn."""

    handler: Handler[Any, Any, Any]
    grant: Any
    decided: Decided


class DecidedAhead:
    """The units that were decided ahead, and how many more are worth it."""

    def __init__(self) -> None:
        self._units: dict[Unit, Ahead] = {}
        self._state: Hashable = None
        """What the state was when they were decided"""
        self._size = FIRST
        self._alone = 0
        """Units to be decided alone next"""
        self._rest = 1
        """How many after the next failure"""

    def __bool__(self) -> bool:
        return bool(self._units)

    def __iter__(self) -> Iterator[Ahead]:
        """Those that wait for their turn, in the order in which they were decided."""
        return iter(list(self._units.values()))

    def __contains__(self, unit: Unit) -> bool:
        return unit in self._units

    def worth(self) -> int:
        """How many units are worth deciding ahead, after one that was decided by itself."""
        if self._alone:
            self._alone -= 1
            return 0
        return self._size

    def add(self, unit: Unit, ahead: Ahead) -> None:
        """Keep a unit until its turn."""
        self._units[unit] = ahead

    def seal(self, state: Hashable) -> None:
        """All are added and assumed. `state` is equal as long as a new decision would give the same."""
        self._state = state

    def next(self, unit: Unit, handler: Handler[Any, Any, Any], state: Hashable) -> Ahead | None:
        """The grant of a unit whose turn has come; None if it must be decided anew."""
        found = self._units.get(unit)
        if found is None or found.handler is not handler or state != self._state:
            return None
        if not handler.is_current(unit, found.grant):
            return None
        del self._units[unit]
        if not self._units:
            self._size, self._rest = min(GROWTH * self._size, MOST), 1
        return found

    def in_vain(self) -> None:
        """What was decided ahead, or tried, was of no use: rest, longer from time to time."""
        self._size, self._alone, self._rest = AGAIN, self._rest, min(2 * self._rest, LONGEST_REST)

    def take_back(self) -> None:
        """Free what the units were given, the last one first. They have their turns."""
        if not self._units:
            return
        units, self._units = self._units, {}
        self.in_vain()
        for ahead in reversed(units.values()):
            ahead.handler.take_back(ahead.grant)
