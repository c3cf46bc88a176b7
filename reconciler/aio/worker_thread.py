"""Long computations in a thread, one at a time, and how often Python collects circular garbage meanwhile.

Neither may hold the event loop.
"""

import asyncio
import gc
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event, Lock
from typing import Any, TypeVar

T = TypeVar("T")
ShouldContinue = Callable[[], bool]

SWITCH_INTERVAL = 0.0005
"""Thread switch interval in seconds while work runs. Python's default of 5 ms is too long: the loop waits
that long after each of its system calls, and one iteration of the loop has dozens."""


class Closed(Exception):
    """The worker is closed: running work is abandoned, and no new work starts."""


class WorkerThread:
    """A thread for long computations. Check `busy` before `run`."""

    def __init__(self, name: str) -> None:
        """`name` is the thread's name in debuggers. The thread starts with the first work."""
        self._threads = ThreadPoolExecutor(1, thread_name_prefix=name)
        self.busy = False
        self._current: asyncio.Future[Any] | None = None
        self._closed = False

    async def run(self, work: Callable[[ShouldContinue], T]) -> T:
        """Return or raise what `work` does. Must not be called while busy. Raises Closed.

        `work` gets a function that returns whether to continue. When `run` is cancelled, that function
        returns False, `work` ends when it next calls it, its result is dropped, and `busy` stays true
        until then.
        """
        assert not self.busy
        if self._closed:
            raise Closed
        self.busy = True
        cancelled = Event()

        def run_work() -> T:
            try:
                with short_switch_interval():
                    return work(lambda: not cancelled.is_set())
            finally:
                self.busy = False

        future = asyncio.get_running_loop().run_in_executor(self._threads, run_work)
        self._current = future
        try:
            return await future
        except asyncio.CancelledError as exc:
            cancelled.set()
            task = asyncio.current_task()
            if self._closed and not (task and task.cancelling()):
                raise Closed from exc
            raise

    def close(self) -> None:
        """Start no more work. A waiting `run` raises Closed at once; the thread ends with its work."""
        self._closed = True
        if self._current is not None:
            self._current.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)


_lock = Lock()
_running: list[float] = []


@contextmanager
def short_switch_interval() -> Iterator[None]:
    """Shorten the thread switch interval during the block. Several threads may enter it at once."""
    with _lock:
        _running.append(sys.getswitchinterval())
        sys.setswitchinterval(min(SWITCH_INTERVAL, _running[0]))
    try:
        yield
    finally:
        with _lock:
            before = _running[0]
            _running.pop()
            if not _running:
                sys.setswitchinterval(before)


COLLECTIONS = (5_000, 16, 250)
"""Arguments of `gc.set_threshold`: new objects before a collection of the youngest generation, which takes
half a millisecond; such collections before one of the middle generation, which looks at all that is left of
them and so holds the loop for up to 30 ms; and those before a full collection."""


_postponed = 0


@contextmanager
def postponed() -> Iterator[None]:
    """No collection starts during the block. Several threads may enter it at once.

    For work in a thread that makes hundreds of thousands of objects and drops them again: a collection that
    looks at all of them stops the event loop for as long.
    """
    global _postponed  # noqa: PLW0603 - the collector is of the whole process
    with _lock:
        if not _postponed:
            gc.disable()
        _postponed += 1
    try:
        yield
    finally:
        with _lock:
            _postponed -= 1
            if not _postponed:
                gc.enable()
