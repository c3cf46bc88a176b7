"""Caches of the search: what pods demand, which machines may serve it, and answers of machines in one state.

A pending pod is retried many times, and many pods have the same demand. Few machines change between two
searches, so only these are evaluated again, and those in a state that was evaluated before not even then.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from itertools import count

import numpy as np

from kernels.types import Codes, Mask, Rows
from reconciler.api.objects.core import Container, Pod
from reconciler.plugins.koordinator import vocabulary as koord
from reconciler.plugins.koordinator.demand import Demand, Failure, read_demand
from reconciler.plugins.koordinator.vocabulary import Rules
from reconciler.state.caches import Recent

MOST_ANSWERS = 1 << 14
"""Answers that are kept at least; at most twice as many."""


MOST_DEMANDS = 1 << 10
"""Demands that are kept at least; at most twice as many."""


class Demands:
    """The most recently read demands, under one set of rules."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._read: Recent[Hashable, Demand] = Recent(MOST_DEMANDS)

    def of(self, pod: Pod) -> Demand | Failure | None:
        """What `read_demand` returns. Failures are not kept: they name the pod."""
        words = _words(pod)
        known = self._read.get(words)
        if known is not None:
            return known
        found = read_demand(pod, self._rules)
        return self._read.put(words, found) if isinstance(found, Demand) else found


def _words(pod: Pod) -> Hashable:
    """All that a reading depends on."""
    notes = pod.metadata.annotations
    return (
        tuple(_amounts(pod.spec.containers)),
        tuple(_amounts(pod.spec.init_containers)),
        tuple(container.restart_policy for container in pod.spec.init_containers),
        tuple(pod.spec.overhead.items()),
        notes.get(koord.JOINT_ALLOCATE),
        notes.get(koord.ALLOCATE_HINT),
        notes.get(koord.PARTITION_SPEC),
        pod.metadata.labels.get(koord.ISOLATION_PROVIDER),
    )


def _amounts(containers: Iterable[Container]) -> Iterator[Hashable]:
    for container in containers:
        resources = container.resources
        yield tuple(resources.limits.items()), tuple(resources.requests.items())


MOST_STATES = 1 << 14
"""Maximum number of states of machines that are known at a time."""


class Numbers:
    """A number for each thing, used once: an old number is at worst of no use."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._next = count()

    def of(self, thing: Hashable) -> int:
        """The number of what equals this."""
        found = self._numbers.get(thing)
        if found is None:
            if len(self._numbers) >= MOST_STATES:
                self._numbers.clear()
            found = self._numbers[thing] = next(self._next)
        return found


MOST_FILTERS = 512
"""Demands in the cache at least; at most twice as many."""
FEW = 4
"""Up to this number of changed machines, evaluating each is faster than one pass over all."""

Judge = Callable[[int | None], Codes]
"""The codes of all machines, or (1,) that of one."""
Recall = Callable[[int], int | None]
"""The code of a machine if it is known without evaluating it."""
OPEN = 0
"""The verdict of a machine that may serve; other values are reasons why not"""


class MachineCodes:
    """(N,) a code for each machine, evaluated again for machines that changed."""

    def __init__(self) -> None:
        self.codes: Codes = np.zeros(0, dtype=np.int32)
        self._seen = -1

    def refresh(
        self, log: "ChangeLog", size: int, judge: Judge, recall: Recall = lambda _: None
    ) -> Collection[int] | None:
        """Evaluate the machines that have changed since the last call.

        Returns these machines, or None if it is not known which have changed.
        """
        changed = log.since(self._seen)
        if changed is None or len(self.codes) != size:
            self.codes = judge(None)
        else:
            new = []
            for number in changed:
                if (code := recall(number)) is None:
                    new.append(number)
                else:
                    self.codes[number] = code
            if len(new) > FEW:
                self.codes = judge(None)
            else:
                for number in new:
                    self.codes[number] = judge(number)[0]
        self._seen = log.end
        return changed


class MachineFilter:
    """The machines that may serve one kind of demand, and those where the exact decision failed."""

    def __init__(self, serial: int) -> None:
        self.serial = serial
        """Another for each filter that was ever made."""
        self.verdicts = MachineCodes()
        self.outlook = MachineCodes()
        """What machines lack that cannot serve."""
        self.refused: dict[int, Failure] = {}
        """Machines where the exact decision failed and that have not changed since."""
        self.at_best: dict[int, Failure | None] = {}
        """Machine -> the failure of the exact decision if all its devices were healthy and free."""
        self.open: Mask = np.zeros(0, dtype=np.bool_)
        """(N,) machines that may serve."""

    @property
    def verdict(self) -> Codes:
        """(N,) the current verdict of each machine."""
        return self.verdicts.codes

    def refresh(self, log: "ChangeLog", size: int, judge: Judge, recall: Recall) -> None:
        """Evaluate the machines that have changed since the last call."""
        before = self.verdict
        changed = self.verdicts.refresh(log, size, judge, recall)
        # Failures of the exact decision stay valid for unchanged machines.
        for number in list(self.refused if changed is None else changed):
            self.refused.pop(number, None)
        if self.verdict is not before:
            self.open = self.verdict == OPEN
            self.open[list(self.refused)] = False
        else:
            for number in changed or ():
                self.open[number] = self.verdict[number] == OPEN

    def refresh_outlook(self, log: "ChangeLog", size: int, judge: Judge) -> None:
        """Evaluate what machines lack that were described again since the last call."""
        changed = self.outlook.refresh(log, size, judge)
        for number in list(self.at_best if changed is None else changed):
            self.at_best.pop(number, None)

    def refuse(self, number: int, why: Failure) -> None:
        """Record a failure of the exact decision; it stays valid until the machine changes."""
        self.open[number] = False
        self.refused[number] = why

    def candidates(self, order: Rows) -> Iterator[int]:
        """The machines that may serve, in the order of `order`."""
        ranked = self.open[order]
        first = int(ranked.argmax()) if len(ranked) else 0
        if not len(ranked) or not ranked[first]:
            return
        # Mostly the first is taken, so that a list of all would be made in vain.
        yield int(order[first])
        yield from order[first + 1 :][ranked[first + 1 :]].tolist()


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
        if len(self._machines) > 2 * MOST_FILTERS:
            del self._machines[:MOST_FILTERS]
            self._forgotten += MOST_FILTERS

    def since(self, seen: int) -> set[int] | None:
        """Machines that changed after change number `seen`; None if these entries are dropped."""
        if seen < self._forgotten:
            return None
        return set(self._machines[seen - self._forgotten :])
