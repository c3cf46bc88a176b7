"""A `dra-reconciler run` in a process of its own, as it runs in a pod; what it logs is followed."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import aiohttp
import msgspec

from perf.deciding import Wrong
from perf.fleets import mig
from perf.fleets.objects import Json
from perf.live import Reach
from perf.results import ROOT
from reconciler import app
from reconciler.cluster.transport import Transport
from reconciler.control.decisions.allocating import Allocated, HeldBack
from reconciler.control.decisions.declaration import Decision
from reconciler.embedded import ApiServer, serve
from reconciler.settings import Settings


async def main() -> None:
    """Serve until whoever started us is done."""
    async with serve(ApiServer()) as url:
        print(url, flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())


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


LOOK = 0.05
"""Seconds between two questions whether it is ready"""


class Replica:
    """One running process. Use `replica`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._lines: list[tuple[float, Json]] = []
        self._ended = False
        self._news = asyncio.Event()

    async def follow(self) -> None:
        """Read its log lines until it ends."""
        assert self._process.stderr is not None
        async for line in self._process.stderr:
            try:
                self._lines.append((perf_counter(), msgspec.json.decode(line)))
            except msgspec.DecodeError:  # the interpreter's own words, and nothing good
                print(line.decode().rstrip(), file=sys.stderr)
            self._news.set()
        self._ended = True
        self._news.set()

    async def logged(self, event: str, true: Callable[[Json], object] = lambda _: True) -> tuple[float, Json]:
        """The first line of an event for which something holds, and when it came by `perf_counter`.

        Raises Wrong if the process ends without it.
        """
        async with asyncio.timeout(PATIENCE):
            while True:
                self._news.clear()
                for at, line in self._lines:
                    if line.get("event") == event and true(line):
                        return at, line
                if self._ended:
                    raise Wrong(f"a replica ended before it logged {event!r}: {self._lines[-1:]}")
                await self._news.wait()

    async def ready(self) -> None:
        """Wait until its `/readyz` says ok: everything is listed."""
        _, line = await self.logged("status served")
        async with asyncio.timeout(PATIENCE), aiohttp.ClientSession() as session:
            while True:
                with suppress(aiohttp.ClientConnectionError):  # it may have ended
                    async with session.get(f"{line['url']}/readyz") as answer:
                        if answer.status == 200:
                            return
                if self._ended:
                    raise Wrong(f"a replica ended before it was ready: {self._lines[-1:]}")
                await asyncio.sleep(LOOK)

    def processor_seconds(self) -> float:
        """Processor time that it has used so far, in steps of about ten milliseconds. Linux only."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def send(self, number: int) -> None:
        """A signal."""
        self._process.send_signal(number)

    async def stop(self) -> None:
        """Have it end, and wait for that. Nothing if it is over."""
        if self._process.returncode is None:
            self.send(signal.SIGTERM)
        async with asyncio.timeout(PATIENCE):
            await self._process.wait()


async def started(
    arguments: Sequence[str], settings: Mapping[str, str], **outputs: Any
) -> asyncio.subprocess.Process:
    """The command `run` in a process of its own. `settings` are named as in a file with settings."""
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "reconciler", "run", *arguments),
        cwd=ROOT,
        env={**os.environ, **{f"DRA_RECONCILER_{name.upper()}": value for name, value in settings.items()}},
        stdin=asyncio.subprocess.DEVNULL,
        **outputs,
    )


@asynccontextmanager
async def replica(reach: Reach, settings: Mapping[str, str]) -> AsyncIterator[Replica]:
    """Run one beside the block, which ends by SIGTERM. For `settings` see `started`."""
    where = [word for name, value in reach.items() for word in (f"--{name}", str(value))]
    process = await started(where, settings, stderr=asyncio.subprocess.PIPE)
    found = Replica(process)
    following = asyncio.create_task(found.follow(), name="log lines")
    try:
        yield found
        await found.stop()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        await following
