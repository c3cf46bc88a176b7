"""Long computations beside the event loop: one at a time, in a thread, without holding up the loop."""

import asyncio
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event, Lock
from typing import Any, TypeVar

T = TypeVar("T")
Wanted = Callable[[], bool]

TURN = 0.0005
"""Seconds after which a thread has to let another one run. Python's own 5 ms are too long here: the loop
waits that long after each of its system calls, and a turn of it has dozens."""


class Closed(Exception):
    """What was under way is broken off, and nothing more is begun."""


class Sideline:
    """A thread for long computations. Whoever finds it busy does something else meanwhile."""

    def __init__(self, name: str) -> None:
        """`name` is for people who look at threads. The thread begins with the first work."""
        self._threads = ThreadPoolExecutor(1, thread_name_prefix=name)
        self.busy = False
        self._under_way: asyncio.Future[Any] | None = None
        self._closed = False

    async def run(self, work: Callable[[Wanted], T]) -> T:
        """What `work` returns or raises. Must not be called while busy. Raises Closed.

        `work` is handed a function that tells whether anybody still waits. Cancelled: it is False from
        then on, and work goes on until it asks; what comes of it is dropped, and meanwhile we are busy.
        """
        assert not self.busy
        if self._closed:
            raise Closed
        self.busy = True
        given_up = Event()

        def turn() -> T:
            try:
                with _short_turns():
                    return work(lambda: not given_up.is_set())
            finally:
                self.busy = False

        future = asyncio.get_running_loop().run_in_executor(self._threads, turn)
        self._under_way = future
        try:
            return await future
        except asyncio.CancelledError as exc:
            given_up.set()
            task = asyncio.current_task()
            if self._closed and not (task and task.cancelling()):
                raise Closed from exc
            raise

    def close(self) -> None:
        """Begin nothing more. Whoever waits gets Closed at once; the thread ends when its work asks."""
        self._closed = True
        if self._under_way is not None:
            self._under_way.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)


_lock = Lock()
_running: list[float] = []


@contextmanager
def _short_turns() -> Iterator[None]:
    """Threads take short turns in the block, which may be entered by several at once."""
    with _lock:
        _running.append(sys.getswitchinterval())
        sys.setswitchinterval(min(TURN, _running[0]))
    try:
        yield
    finally:
        with _lock:
            before = _running[0]
            _running.pop()
            if not _running:
                sys.setswitchinterval(before)
