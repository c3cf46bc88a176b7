"""Tasks that must not end or that end on an event, breaks in long work, how late the event loop is, patience,
and long computations in a thread.
"""

import asyncio
import ctypes
import gc
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event, Lock
from time import monotonic, process_time, thread_time
from typing import Any, Never, TypeVar

T = TypeVar("T")


class Ended(Exception):
    """A task that must run forever returned."""


async def forever(name: str, work: Awaitable[object]) -> Never:
    """Run work that must not end. If it returns, raise Ended, which cancels the task group.

    Exceptions of `work`, including cancellation, are passed on.
    """
    await work
    raise Ended(f"{name} returned, but must run until cancelled")


class Stopped(Exception):
    """The stop event was set before the work ended."""


async def unless(stop: asyncio.Event, work: Coroutine[Any, Any, T]) -> T:
    """Return or raise what `work` does. If `stop` is set first, cancel the work and raise Stopped.

    If the caller is cancelled, the work is cancelled too.
    """
    working, stopping = asyncio.create_task(work), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
    finally:
        working.cancel()
        stopping.cancel()
        await asyncio.wait((working, stopping))
    if working.cancelled():
        raise Stopped
    try:
        return working.result()
    finally:
        # An error has this frame, the frame has the task, and the task has the error: with all that the
        # frames of the work hold they would stay until the next full collection.
        del working


LONGEST = 0.004
"""Seconds of work without a break"""
MOST = 64
"""Steps without a break, however short"""


class Breaks:
    """Call `after_step` after each short step of the work.

    For work that may wait between its steps, call `before_step` too: what it waits does not count.
    """

    def __init__(self, longest: float = LONGEST) -> None:
        """`longest` are the seconds of work without a break: less where several do such work at once, since
        others wait for all of them.
        """
        self._longest = longest
        self._now = asyncio.get_running_loop().time
        self._steps = 0
        self._worked = 0.0
        self._since = self._now()

    def before_step(self) -> None:
        """A step begins now."""
        self._since = self._now()

    async def after_step(self) -> None:
        """Let other tasks run if a break is due. A break costs more than a short step."""
        self._steps += 1
        now = self._now()
        self._worked += now - self._since
        self._since = now
        if self._steps >= MOST or self._worked >= self._longest:
            self._steps, self._worked = 0, 0.0
            await asyncio.sleep(0)
            self._since = self._now()


class Heartbeat:
    """Beats while `run` runs. If the beats stop, the loop is stuck. An exception of `on_beat` goes to the
    exception handler of the loop and does not stop the beats.
    """

    def __init__(self, on_beat: Callable[[float], None], *, every: float = 0.25) -> None:
        """`on_beat` is called with the seconds by which each beat is late; `every` is in seconds."""
        self._on_beat = on_beat
        self._every = every
        self.last: float | None = None
        """Loop time of the last beat; None before the first"""

    async def run(self) -> Never:
        """Beat until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + self._every
            await asyncio.sleep(self._every)
            self.last = loop.time()
            loop.call_soon(self._on_beat, max(0.0, self.last - due))


class Patience:
    """Ends after some processor time of the process, so that work is not called long because other programs
    keep the machine busy.
    """

    def __init__(
        self, seconds: float, longest: float, lasts: Callable[[], bool], end: Callable[[], None]
    ) -> None:
        """Calls `end` after `seconds` of processor time, or `longest` by the clock of the loop; sooner if the
        work does not last any more.
        """
        self._loop = asyncio.get_running_loop()
        self._until, self._latest = process_time() + seconds, self._loop.time() + longest
        self._lasts, self._end = lasts, end
        self._timer = self._loop.call_later(seconds, self._look)

    def cancel(self) -> None:
        """Do not call `end`."""
        self._timer.cancel()

    def _look(self) -> None:
        left = min(self._until - process_time(), self._latest - self._loop.time())
        if left > 0 and self._lasts():
            self._timer = self._loop.call_later(left, self._look)
        else:
            self._end()


ShouldContinue = Callable[[], bool]

SWITCH_INTERVAL = 0.0005
"""Thread switch interval in seconds while work runs. Python's default of 5 ms is too long: the loop waits
that long after each of its system calls, and one iteration of the loop has dozens."""


class Closed(Exception):
    """The worker is closed: running work is abandoned, and no new work starts."""


SLICE = 0.0005
"""Processor time of a thread between two looks at what others do"""
SHARE = 4
"""How many times as long others then have the interpreter for themselves"""
LONGEST_PAUSE = 0.05
RECENT = 1.0
"""Seconds for which others count as busy: work comes in bursts"""


class _Wanted:
    """Whether to continue. Called often, it gives way: it waits if other threads worked a moment ago.

    One that computes and one that does I/O get the interpreter in turns, and a decision has a hundred of
    them: it would take four times as long, even if the computing thread got only half of the time.
    """

    def __init__(self, cancelled: Event) -> None:
        self._cancelled = cancelled
        self._own, self._all = thread_time(), process_time()
        self._busy_until = 0.0

    def __call__(self) -> bool:
        if (own := thread_time() - self._own) >= SLICE:
            if process_time() - self._all - own > SLICE / 5:
                self._busy_until = monotonic() + RECENT
            self._own, self._all = thread_time(), process_time()
            if monotonic() < self._busy_until:
                self._cancelled.wait(min(own * SHARE, LONGEST_PAUSE))
        return not self._cancelled.is_set()


class WorkerThread:
    """A thread for long computations, which give way to other threads. Check `busy` before `run`."""

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
        unbegun = Lock()  # who locks it first, begins the work or drops it

        def run_work() -> T:
            if not unbegun.acquire(blocking=False):
                raise Closed
            try:
                with short_switch_interval():
                    return work(_Wanted(cancelled))
            finally:
                self.busy = False

        future = asyncio.get_running_loop().run_in_executor(self._threads, run_work)
        self._current = future
        try:
            return await future
        except asyncio.CancelledError as exc:
            cancelled.set()
            if unbegun.acquire(blocking=False):
                self.busy = False
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


COLLECTIONS = (5_000, 16, 8)
"""Arguments of `gc.set_threshold`: new objects before a collection of the youngest generation, which takes
half a millisecond; such collections before one of the middle generation, which looks at all that is left of
them and so holds the loop for up to 30 ms; and those before a full collection, which also waits until the
oldest generation has grown by a quarter."""

_trim, _option = (getattr(ctypes.CDLL(None), name, None) for name in ("malloc_trim", "mallopt"))
_ARENA_MAX = -8


def share_memory_between_threads() -> None:
    """Have all threads that start from now on share one arena of memory. By default, glibc gives each thread
    its own, and no other thread can use what is freed there: memory grew by 7 % in an hour.
    """
    if _option is not None:
        _option(_ARENA_MAX, 1)


def give_memory_back() -> None:
    """Return the free memory between used blocks to the system: a takeover needs much for a moment, and glibc
    keeps it. The call blocks the loop for 2 to 3 ms in a process of 1.7 GB.
    """
    if _trim is not None:
        _trim(0)


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
