"""Measure how late an event loop runs its timers: one that runs again after a fixed interval."""

import asyncio
from collections.abc import Callable
from typing import Never


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
