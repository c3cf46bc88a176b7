"""A reconciler under constant churn and faults, in real time over HTTP: does anything grow, go wrong?

The world, its faults and the auditor are those of `tests.tools.simulation`. Rounds: turmoil, then calm until
nothing is left undone; then memory and tasks are counted.
"""

import asyncio
import gc
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Any

from perf.fleets.objects import Json
from reconciler.api.validation.served_kinds import CLAIM, POD
from reconciler.cluster.http import connect
from reconciler.embedded import run_controllers, serve
from tests.tools.simulation.clock import SimulationLoop
from tests.tools.simulation.faults import Fault, Weather
from tests.tools.simulation.process import quiet
from tests.tools.simulation.schedule import Schedule

TURMOIL = 15.0
"""Seconds a round"""
PATIENCE = 120.0
"""Seconds of calm after which nothing may be left undone"""
MOST = 40
"""Claims, and pods: beyond that somebody deletes"""
WARM = 3
"""Rounds after which nothing should grow any more"""


class RealLoop(SimulationLoop):
    """The same loop in real time."""

    def time(self) -> float:
        return asyncio.SelectorEventLoop.time(self)

    @property
    def true_time(self) -> float:
        return self.time()

    def call_at(self, when: float, callback: Callable[..., object], *args: Any, **more: Any) -> Any:  # type: ignore[override]
        return asyncio.SelectorEventLoop.call_at(self, when, callback, *args, **more)

    def _run_once(self) -> None:
        asyncio.SelectorEventLoop._run_once(self)  # type: ignore[attr-defined]


class Chances(Weather):
    """Never the same twice, and nothing is remembered."""

    def chance(self, what: str) -> Random:  # noqa: ARG002 - seeds play no part in real time
        return Random()


class Soak(Schedule):
    """A schedule that does not end."""

    def __init__(self, loop: SimulationLoop, count: Counter[str]) -> None:
        super().__init__(1, loop, count, None)
        self.rounds: list[Json] = []
        self.world.turmoil = 0.05
        if not self.world.controllers:
            self.world.controllers = True
            self.world.templates_made()
        self.weather = Chances(
            seed=0, kinds=frozenset(Fault) - {Fault.WATCH_STALLED}, writes=0.2, reads=0.02, lines=0.01,
            latency=0.002, lags={}, count=count,
        )  # fmt: skip

    async def soak(self, seconds: float, progress: Callable[[float, str], None]) -> None:
        """Rounds for so many seconds; `progress` hears how many are over, and how things are."""
        async with AsyncExitStack() as stack:
            url = await stack.enter_async_context(serve(self.world.api))
            self._behind = await stack.enter_async_context(connect(server=url))
            await stack.enter_async_context(run_controllers(self.world.api))
            (replica,) = self._replicas
            replica.start()
            began = self.loop.time()
            rough = (self.weather.reads, self.weather.lines, self.weather.writes, self.weather.latency)
            while (left := began + seconds - self.loop.time()) > 0:
                self.weather.reads, self.weather.lines, self.weather.writes, self.weather.latency = rough
                self.weather.calm = False
                await self._churn(min(TURMOIL, left))
                self.weather.clear_up(writes=0.0)
                await self._resurrect()
                await self._until_done(PATIENCE)
                self._count()
                progress(
                    self.loop.time() - began, f"{self.rounds[-1]}, {len(self.auditor.findings)} findings"
                )
            await replica.stopped()

    async def _churn(self, seconds: float) -> None:
        until = self.loop.time() + seconds
        while self.loop.time() < until:
            self._act(self.world.act)
            while len(self.world.ground.all(POD)) > MOST:
                self._act(self.world.drop_pod)
            for claim in list(self.world.ground.loose())[MOST:]:
                self._act(lambda claim=claim: self.world.claims.drop(claim))  # type: ignore[misc]
            if self.random.random() < 0.005:
                self._kill(self._replicas[0])
            await asyncio.sleep(self.random.expovariate(30))
            await self._resurrect()

    def _count(self) -> None:
        gc.collect()
        self.rounds.append({
            "seconds": round(self.loop.time(), 1),
            "rss_mib": round(_resident() / 2**20, 1),
            "tasks": len(asyncio.all_tasks()),
            "claims": len(self.world.ground.all(CLAIM)),
        })  # fmt: skip


def soak(minutes: float, progress: Callable[[float, str], None]) -> Json:
    """Run, and say what came of it as JSON."""
    count: Counter[str] = Counter()
    loop = RealLoop()
    with quiet(1, count, None) as errors, asyncio.Runner(loop_factory=lambda: loop) as runner:
        course = Soak(loop, count)
        runner.run(course.soak(minutes * 60, progress))
    warm = course.rounds[min(WARM, len(course.rounds) - 1) :]
    return {
        "minutes": minutes,
        "findings": [*course.auditor.findings, *errors],
        "growth": {name: warm[-1][name] - warm[0][name] for name in ("rss_mib", "tasks")},
        "counts": {str(name): number for name, number in sorted(count.items())},
        "rounds": course.rounds,
    }


def _resident() -> int:
    """Bytes of memory that this process holds now."""
    fields = Path("/proc/self/status").read_text("ascii").split("VmRSS:")[1].split()
    return int(fields[0]) * 1024
