"""An event loop whose clock jumps to the next timer when nothing else can run."""

import asyncio
import heapq
import math
from asyncio.events import TimerHandle
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
    _ready: list[object]
    _scheduled: list[TimerHandle]
    _timer_cancelled_count: int
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
        while self._scheduled and self._scheduled[0].cancelled():
            # The base class drops these too, but only after the clock would have jumped to them.
            self._timer_cancelled_count -= 1
            heapq.heappop(self._scheduled)._scheduled = False  # type: ignore[attr-defined]
        due = self._scheduled[0].when() if self._scheduled else math.inf
        if not self._ready and self._threads and due > self._now:
            self._process_events(self._selector.select())  # type: ignore[attr-defined]
        elif not self._ready and self._scheduled:
            self._now = max(self._now, due)
        elif not self._ready and self._default_executor is None:
            raise RuntimeError("deadlock: every task waits and no timer is left")
        super()._run_once()  # type: ignore[misc]
