"""Which machines might serve each kind of pod, kept from one question to the next.

A pod that is waiting is asked about again and again, and pods come in kinds of which each makes the same
demand. Between two questions few machines change, so only those are looked at again.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator

import numpy as np

from kernels.types import Codes, Mask, Rows
from reconciler.koordinator.failure import Failure

KEPT = 512
"""Kinds of demand that are remembered."""
FEW = 4
"""Machines up to which one by one is faster than all in one pass."""

JudgeAll = Callable[[], Codes]
JudgeOne = Callable[[int], int]
OPEN = 0
"""The verdict of machines that may serve; others say why not"""


class Question:
    """One kind of demand: which machines may serve it as things are, and which were found not to."""

    def __init__(self) -> None:
        self.verdict: Codes = np.zeros(0, dtype=np.int32)
        """(N,) of each machine as things are."""
        self.open: Mask = np.zeros(0, dtype=np.bool_)
        """(N,) machines that are not known to refuse."""
        self.refused: dict[int, Failure] = {}
        """Machines that the exact choice refused, and did not change since."""
        self._seen = -1

    def refresh(self, log: "ChangeLog", size: int, judge_all: JudgeAll, judge_one: JudgeOne) -> None:
        """Judge the machines that changed since the last time."""
        changed = log.since(self._seen)
        if changed is None or len(changed) > FEW or len(self.open) != size:
            # What the exact choice found still holds where nothing changed.
            stale = self.refused if changed is None else changed
            for number in list(stale):
                self.refused.pop(number, None)
            self.verdict = judge_all()
            self.open = self.verdict == OPEN
            self.open[list(self.refused)] = False
        else:
            for number in changed:
                self.refused.pop(number, None)
                self.verdict[number] = judge_one(number)
                self.open[number] = self.verdict[number] == OPEN
        self._seen = log.end

    def refuse(self, number: int, why: Failure) -> None:
        """The exact choice says no; so it will until the machine changes."""
        self.open[number] = False
        self.refused[number] = why

    def candidates(self, order: Rows) -> Iterator[int]:
        """Machines that might serve, in an order given as machine numbers."""
        return iter(order[self.open[order]].tolist())


class ChangeLog:
    """Machines in the order in which they changed. What is long past is forgotten."""

    def __init__(self) -> None:
        self._machines: list[int] = []
        self._forgotten = 0

    @property
    def end(self) -> int:
        """Changes so far."""
        return self._forgotten + len(self._machines)

    def note(self, number: int) -> None:
        """A machine changed."""
        self._machines.append(number)
        if len(self._machines) > 2 * KEPT:
            del self._machines[:KEPT]
            self._forgotten += KEPT

    def since(self, seen: int) -> set[int] | None:
        """Machines that changed after so many changes; None if that is not known any more."""
        if seen < self._forgotten:
            return None
        return set(self._machines[seen - self._forgotten :])


class Questions:
    """The kinds of demand that were asked about last."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, Question] = OrderedDict()

    def of(self, shape: Hashable) -> Question:
        """What is known about a kind of demand."""
        question = self._kept.pop(shape, None) or Question()
        self._kept[shape] = question
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return question
