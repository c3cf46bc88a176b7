"""Cuts scenarios into batches of a second or more: a short one alone would cost more to send than to play."""

from collections import deque
from collections.abc import Iterable, Sequence
from time import thread_time

from perf.sweep.results import Result, Task, tasks_of
from reconciler.allocation.dra.selector_masks import warm_up
from reconciler.errors import ReconcilerError

SECONDS = 2.0
"""Of processor time that a batch should take"""
MOST = 500
"""Scenarios of one batch"""

ELSEWHERE = (
    "the code, the libraries or the input files differ between this process and the one that started the "
    "sweep; use the same checkout and environment everywhere"
)


class Batches:
    """What is left to play. How long scenarios take is learnt from those that were played."""

    def __init__(self, tasks: Iterable[Task]) -> None:
        self._waiting: dict[tuple[object, ...], deque[Task]] = {}
        for task in tasks:
            self._waiting.setdefault(task.scenario.like(), deque()).append(task)
        self._seconds: dict[tuple[object, ...], float] = {}

    def next(self) -> list[Task]:
        """The next batch; empty if nothing is left. Scenarios of unknown length go alone, the first ones."""
        if not self._waiting:
            return []
        kinds = sorted(self._waiting, key=self._seconds.__contains__)
        batch: list[Task] = []
        expected = 0.0
        for kind in kinds:
            each = self._seconds.get(kind, SECONDS)
            queue = self._waiting[kind]
            while queue and len(batch) < MOST and (not batch or expected + each <= SECONDS):
                batch.append(queue.popleft())
                expected += each
            if not queue:
                del self._waiting[kind]
            else:
                # Others get their turn: all kinds become known early.
                self._waiting[kind] = self._waiting.pop(kind)
                break
        return batch

    def learn(self, batch: Sequence[Task], results: Sequence[Result]) -> None:
        """Learn from what a batch took."""
        for task, result in zip(batch, results, strict=True):
            kind = task.scenario.like()
            before = self._seconds.get(kind, result.seconds)
            self._seconds[kind] = (before + result.seconds) / 2


def play(batch: Sequence[Task]) -> list[Result]:
    """Play a batch, in any process. A scenario that fails does not stop the others."""
    warm_up()  # a process builds the parser of selectors once; that is nobody's time
    return [_play(task) for task in batch]


def _play(task: Task) -> Result:
    began = thread_time()
    try:
        row, error = (task.scenario.row(), "") if tasks_of([task.scenario]) == [task] else ({}, ELSEWHERE)
    except Exception as exc:  # whatever it is, other scenarios go on and the command tells it
        row, error = {}, str(exc) if isinstance(exc, ReconcilerError) else f"{type(exc).__name__}: {exc}"
    return Result(task.digest, row, thread_time() - began, error)
