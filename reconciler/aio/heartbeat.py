"""Measure how late an event loop runs its timers: a task that sleeps for a fixed interval."""

import asyncio
from collections.abc import Callable
from typing import Never


class Heartbeat:
    """Beats while `run` runs. If the beats stop, the loop or the task is stuck."""

    def __init__(self, on_beat: Callable[[float], None], *, every: float = 0.1) -> None:
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
            self._on_beat(max(0.0, self.last - due))
