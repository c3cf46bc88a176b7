"""Tasks that must not end or that end on an event, breaks in long work, and how late the event loop is."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
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
    return working.result()


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
    """Beats while `run` runs. If the beats stop, the loop is stuck. An exception of `on_beat` is for the
    exception handler of the loop, and the beats go on.

    Each beat is a callback of the loop: a task that sleeps would take two rounds of the loop for each, and
    the beats are most of what a process does that has nothing to do.
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
        self._schedule(loop)
        try:
            never: asyncio.Future[Never] = loop.create_future()
            await never
        finally:
            self._timer.cancel()

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        due = loop.time() + self._every
        self._timer = loop.call_at(due, self._beat, loop, due)

    def _beat(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        self.last = loop.time()
        self._schedule(loop)
        self._on_beat(max(0.0, self.last - due))
