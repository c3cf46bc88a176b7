"""Numbers for the states of machines: machines of one number get the same answer to every demand."""

from collections.abc import Hashable

from reconciler.state.koordinator.holdings import Holdings
from reconciler.state.koordinator.machine import Machine

KEPT = 1 << 14
"""Maximum number of states that are known at a time."""


class States:
    """The number of each state. Numbers are not used again, so an old one is at worst of no use."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._numbers: dict[Hashable, int] = {}
        self._next = 0

    def likeness(self, machine: Machine) -> int:
        """The number of what a machine is, whatever is held of it."""
        return self._number(machine.likeness())

    def state(self, likeness: int, holdings: Holdings) -> int:
        """The number of a machine of this likeness with these holdings."""
        return self._number((likeness, holdings.state()))

    def _number(self, state: Hashable) -> int:
        found = self._numbers.get(state)
        if found is None:
            if len(self._numbers) >= self._kept:
                self._numbers.clear()
            found = self._numbers[state] = self._next
            self._next += 1
        return found
