"""Caches which machines may serve each kind of demand.

A pending pod is retried many times, and many pods have the same demand. Few machines change between two
searches, so only these are evaluated again.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator

import numpy as np

from kernels.types import Codes, Mask, Rows
from reconciler.allocation.koordinator.failure import Failure

KEPT = 512
"""Maximum number of demands in the cache."""
FEW = 4
"""Up to this number of changed machines, evaluating each is faster than one pass over all."""

JudgeAll = Callable[[], Codes]
JudgeOne = Callable[[int], int]
OPEN = 0
"""The verdict of a machine that may serve; other values are reasons why not"""


class MachineFilter:
    """The machines that may serve one kind of demand, and those where the exact decision failed."""

    def __init__(self) -> None:
        self.verdict: Codes = np.zeros(0, dtype=np.int32)
        """(N,) the current verdict of each machine."""
        self.open: Mask = np.zeros(0, dtype=np.bool_)
        """(N,) machines that may serve."""
        self.refused: dict[int, Failure] = {}
        """Machines where the exact decision failed and that have not changed since."""
        self._seen = -1

    def refresh(self, log: "ChangeLog", size: int, judge_all: JudgeAll, judge_one: JudgeOne) -> None:
        """Evaluate the machines that have changed since the last call."""
        changed = log.since(self._seen)
        if changed is None or len(changed) > FEW or len(self.open) != size:
            # Failures of the exact decision stay valid for unchanged machines.
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
        """Record a failure of the exact decision; it stays valid until the machine changes."""
        self.open[number] = False
        self.refused[number] = why

    def candidates(self, order: Rows) -> Iterator[int]:
        """The machines that may serve, in the order of `order`."""
        return iter(order[self.open[order]].tolist())


class ChangeLog:
    """Machines in the order of their changes. Old entries are dropped."""

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
        """Machines that changed after change number `seen`; None if these entries are dropped."""
        if seen < self._forgotten:
            return None
        return set(self._machines[seen - self._forgotten :])


class MachineFilters:
    """The filters of the most recently used demands."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, MachineFilter] = OrderedDict()

    def of(self, shape: Hashable) -> MachineFilter:
        """The filter for a kind of demand."""
        kept = self._kept.pop(shape, None) or MachineFilter()
        self._kept[shape] = kept
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return kept
