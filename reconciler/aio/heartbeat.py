"""How late an event loop runs its timers: a task that means to wake at a steady pace, and says when."""

import asyncio
from collections.abc import Callable
from typing import Never


class Heartbeat:
    """Beats while `run` runs. One that stops beating belongs to a loop, or a task, that is stuck."""

    def __init__(self, late: Callable[[float], None], *, every: float = 0.1) -> None:
        """`late` hears the seconds by which each beat was late; `every` is the time between two."""
        self._late = late
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
            self._late(max(0.0, self.last - due))
