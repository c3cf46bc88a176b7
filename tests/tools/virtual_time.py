"""An event loop whose clock jumps to the next timer when nothing else can run."""

import asyncio
import heapq
import math
from asyncio.events import TimerHandle
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any


class VirtualLoop(asyncio.SelectorEventLoop):
    """An hour of back-off takes no time and ends at the exact second. Not for real sockets.

    When every task waits and no timer is left, nothing can ever happen again: the loop raises
    instead of hanging. The clock stands still while work handed to threads is waited for; that for
    an executor of its own is done in place and at once, so that the same run can be had again.
    """

    _now = 0.0
    _threads = 0
    """Work in threads whose end is waited for"""
    # Private to CPython, the same in 3.11 to 3.14.
    _ready: deque[asyncio.Handle]
    _scheduled: list[TimerHandle]
    _timer_cancelled_count: int
    _clock_resolution: float
    _default_executor: object

    def time(self) -> float:
        """Seconds since the loop was made."""
        return self._now

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """See the base class."""
        if executor is None:
            running = super().run_in_executor(executor, func, *args)
            self._threads += 1
            running.add_done_callback(self._thread_ended)
            return running
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as exc:
            future.set_exception(exc)
        return future

    def _thread_ended(self, _: object) -> None:
        self._threads -= 1

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ASYNC109, ARG002
        """Wait for threads without a time limit, to which the clock would jump (Python 3.12 and newer)."""
        await super().shutdown_default_executor()

    def _run_once(self) -> None:
        """Does not look for input while something can run, as the base class does: half of its time."""
        scheduled, ready = self._scheduled, self._ready
        while scheduled and scheduled[0].cancelled():
            self._drop_first_timer()
        if not ready:
            due = scheduled[0].when() if scheduled else math.inf
            if self._threads and due > self._now:
                self._process_events(self._selector.select())  # type: ignore[attr-defined]
            elif scheduled:
                self._now = max(self._now, due)
            elif self._default_executor is None:
                raise RuntimeError("deadlock: every task waits and no timer is left")
            else:
                self._process_events(self._selector.select())  # type: ignore[attr-defined]
        end = self._now + self._clock_resolution
        while scheduled and scheduled[0].when() < end:
            ready.append(self._drop_first_timer())
        handle: asyncio.Handle | None
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle.cancelled():
                handle._run()
        handle = None  # tracebacks keep this frame from Python 3.12 on, and with it what ran last

    def _drop_first_timer(self) -> TimerHandle:
        timer = heapq.heappop(self._scheduled)
        timer._scheduled = False  # type: ignore[attr-defined]
        self._timer_cancelled_count -= timer.cancelled()
        return timer
