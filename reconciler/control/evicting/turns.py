"""Only one plan is carried out at a time. Who makes room for pending pods comes before who moves others."""

from enum import IntEnum


class Purpose(IntEnum):
    """What pods are evicted for. The lower number comes first."""

    PREEMPTION = 0
    REBALANCING = 1


class Turns:
    """Whose plan is carried out, and who waits for that."""

    def __init__(self) -> None:
        self._holder: Purpose | None = None
        self._asked: set[Purpose] = set()

    def take(self, purpose: Purpose) -> bool:
        """Begin a plan. False while another one is carried out, or something more important waits."""
        self._asked.add(purpose)
        if self._holder not in (None, purpose) or self.yields(purpose):
            return False
        self._asked.discard(purpose)
        self._holder = purpose
        return True

    def end(self, purpose: Purpose) -> None:
        """Carry out nothing any more, and wait for nothing."""
        self._asked.discard(purpose)
        if self._holder is purpose:
            self._holder = None

    def yields(self, purpose: Purpose) -> bool:
        """Whether something more important waits for its turn, or has it."""
        there = self._asked if self._holder is None else {*self._asked, self._holder}
        return any(other < purpose for other in there)
