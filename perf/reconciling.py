"""Allocates claims in the process that measures, and hears what is decided."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from time import perf_counter, process_time

from perf.deciding import Wrong
from perf.fleets import mig
from reconciler import app
from reconciler.cluster.transport import Transport
from reconciler.control.decisions.allocating import Allocated, HeldBack
from reconciler.control.decisions.declaration import Decision
from reconciler.settings import Settings

PATIENCE = 300.0
"""Seconds after which claims that are still not allocated fail the run"""


class Heard:
    """When each claim was told to be allocated, but those of pods; and what all got."""

    def __init__(self) -> None:
        self.at: dict[str, float] = {}
        self.done: list[tuple[float, float]] = []
        """When each was told, by the clock and by the processor time of this process"""
        self.held = 0
        """Claims that got devices while writes were paused"""
        self._news = asyncio.Event()

    def on_decision(self, decision: Decision) -> None:
        """Take note of a decision."""
        match decision:
            case Allocated(pod=None):
                self.at[decision.claim.name] = perf_counter()
                self.done.append((perf_counter(), process_time()))
                self._news.set()
            case HeldBack():
                self.held += 1
                self._news.set()

    async def wait(self, count: int) -> None:
        """Wait until so many claims are allocated. Raises Wrong if they are not in time."""
        await self._until(lambda: count - len(self.at), f"of {count} claims were not allocated")

    async def wait_held(self, count: int) -> None:
        """Wait until so many claims were held back. Raises Wrong if they are not in time."""
        await self._until(lambda: count - self.held, f"of {count} claims were not decided")

    async def _until(self, missing: Callable[[], int], what: str) -> None:
        """Wait until nothing is missing. `what` says for the error what is."""
        try:
            async with asyncio.timeout(PATIENCE):
                while missing() > 0:
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError as exc:
            raise Wrong(f"{missing()} {what} within {PATIENCE:g} s") from exc


@asynccontextmanager
async def reconciling(
    transport: Transport, heard: Heard, *, switch: str | None = None
) -> AsyncIterator[None]:
    """What allocates while the block runs. `switch` is the ConfigMap that can pause it."""
    settings = Settings(own_drivers=frozenset({mig.DRIVER}), pause_config_map=switch)
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        running = app.run(settings, transport, stop=stop, on_decision=heard.on_decision)
        group.create_task(running, name="reconciler")
        try:
            yield
        finally:
            stop.set()
