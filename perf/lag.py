"""How late the event loop runs its timers while something else goes on."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import thread_time

import numpy as np

from perf.workload import Figure
from reconciler.aio.tasks import Heartbeat

EVERY = 0.005
"""Seconds between two looks. Whoever wants to run at some moment waits as long as the look next to it."""


class Lag:
    """Looks at the running loop, several times if need be."""

    def __init__(self) -> None:
        self._late: list[float] = []
        self._held = 0.0
        self._spent = 0.0

    @asynccontextmanager
    async def measured(self) -> AsyncIterator[None]:
        """Look as long as the block runs."""
        self._spent = thread_time()
        beats = asyncio.create_task(Heartbeat(self._beat, every=EVERY).run(), name="lag")
        await asyncio.sleep(0)
        try:
            yield
            await asyncio.sleep(EVERY)  # a stall at the very end counts, too
        finally:
            beats.cancel()
            await asyncio.wait([beats])

    def _beat(self, late: float) -> None:
        spent = thread_time()
        self._held = max(self._held, spent - self._spent)
        self._spent = spent
        self._late.append(late)

    def longest_hold(self, during: str) -> Figure:
        """Most processor time of the loop between two looks: that of its longest step, and at most EVERY
        more. Other processes do not count.
        """
        return Figure(f"{during}, longest hold", self._held * 1e3, "ms")

    def figures(self, during: str) -> list[Figure]:
        """The 99th percentile and the longest, in milliseconds."""
        late = np.array(self._late or [0.0]) * 1e3
        return [
            Figure(f"{during}, lag p99", float(np.percentile(late, 99)), "ms"),
            Figure(f"{during}, lag max", float(late.max()), "ms"),
        ]
