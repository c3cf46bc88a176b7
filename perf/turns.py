"""The loop of claims as the process runs it, with writes that take no time: what deciding costs there."""

import asyncio
import gc
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from time import perf_counter, thread_time

import msgspec
import structlog

from perf.deciding import Wrong
from perf.fleets.objects import Json
from reconciler.aio.queue import Queue
from reconciler.api.objects.changes import Changed, Replaced
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ApiObject
from reconciler.api.objects.plan import Granted, Plan
from reconciler.api.objects.semantics import Semantics
from reconciler.api.versions.reading import read
from reconciler.cluster.writer import Writer
from reconciler.control.claim_handler import ClaimHandler
from reconciler.control.decisions.allocating import Allocated
from reconciler.control.decisions.declaration import Decision
from reconciler.control.fence import Fence
from reconciler.control.handler import Answer, Decide
from reconciler.control.intake import Intake
from reconciler.control.loop import Reconciler
from reconciler.control.units import Unit
from reconciler.control.waiting import Pending
from reconciler.operations.log_setup import LOGGER, configure
from reconciler.operations.metrics.meters import Meters, Traces
from reconciler.operations.telemetry import reporter as make_reporter
from reconciler.state.store import Store
from tests.tools.burst_loop import OURS, handler_of_claims

WORKERS = 32
"""As many as a process has by default"""
PATIENCE = 300.0
"""Seconds after which claims that are still not allocated fail the run"""


class Stopwatch:
    """Counts processor time, without what it takes to look at the clock."""

    def __init__(self) -> None:
        began = thread_time()
        for _ in range(999):
            thread_time()
        self._look = (thread_time() - began) / 1000
        self._began = 0.0
        self.seconds = 0.0
        self.own = 0.0
        """Seconds that it took itself"""

    def start(self) -> None:
        self._began = thread_time()

    def stop(self) -> None:
        self.seconds += thread_time() - self._began - self._look
        self.own += 2 * self._look

    def reset(self) -> None:
        self.seconds = self.own = 0.0


class NoWrites(Writer):
    """Answers as a server does that applies everything at once."""

    def __init__(self) -> None:
        """Without a client."""
        self._version = 1_000_000
        self.clock = Stopwatch()
        """Of the time to make the answers"""

    async def write(self, plan: Plan, claim: ResourceClaim) -> ResourceClaim:
        allocation = plan.allocation  # it may be made now: no part of the answer
        self.clock.start()
        status = claim.status.model_copy(update={"allocation": allocation})
        written = claim.model_copy(update={"status": status, "metadata": self._newer(claim)})
        self.clock.stop()
        return written

    async def ungate(self, pod: Pod) -> Pod:
        self.clock.start()
        spec = pod.spec.model_copy(update={"scheduling_gates": ()})
        written = pod.model_copy(update={"spec": spec, "metadata": self._newer(pod)})
        self.clock.stop()
        return written

    def _newer(self, thing: ResourceClaim | Pod) -> object:
        self._version += 1
        return thing.metadata.model_copy(update={"resource_version": str(self._version)})


class Timed(ClaimHandler):
    """Counts the time of decisions: from the question to devices that are counted as held."""

    stopwatch: Stopwatch = msgspec.field(default_factory=Stopwatch)
    longest: float = 0.0
    """Seconds of the longest decision, in which the loop did nothing else"""

    def decide(self, unit: Unit, asked: Decide, others: Iterable[Unit]) -> Sequence[Answer]:
        began = perf_counter()
        self.stopwatch.start()
        try:
            return super().decide(unit, asked, others)
        finally:
            self.stopwatch.stop()
            self.longest = max(self.longest, perf_counter() - began)

    def assume(self, asked: Decide, granted: Granted) -> None:
        self.stopwatch.start()
        super().assume(asked, granted)
        self.stopwatch.stop()


@dataclass(slots=True)
class Turns:
    """What became of the claims."""

    devices: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Name of a claim -> its devices"""
    deciding: float = 0.0
    """Seconds of processor time from the questions to devices that are counted as held"""
    whole: float = 0.0
    """Seconds of processor time of everything but the server: queue, plans, decisions, reports, log lines"""
    longest: float = 0.0
    """Seconds of the longest decision"""


def take_turns(fleet: Iterable[Json], claims: Sequence[ResourceClaim], pods: Sequence[Pod] = ()) -> Turns:
    """Allocate claims, alone or for pods: the first one, then the others, which come at once. Raises Wrong.

    The times are those of the others.
    """
    with _logged_to_nowhere():
        return asyncio.run(_take_turns([read(one) for one in fleet], claims, pods))


@contextmanager
def _logged_to_nowhere() -> Iterator[None]:
    """Log lines are made as a process makes them, and dropped."""
    before, handlers = structlog.get_config(), logging.getLogger().handlers[:]
    levels = [(logger, logger.level) for logger in (logging.getLogger(), logging.getLogger(LOGGER))]
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere, redirect_stderr(nowhere):
        try:
            configure("info", "json")
            yield
        finally:
            structlog.configure(**before)
            logging.getLogger().handlers[:] = handlers
            for logger, level in levels:
                logger.setLevel(level)


async def _take_turns(
    fleet: Sequence[ApiObject], claims: Sequence[ResourceClaim], pods: Sequence[Pod]
) -> Turns:
    turns, warm, done = Turns(), asyncio.Event(), asyncio.Event()

    def told(decision: Decision) -> None:
        if isinstance(decision, Allocated):
            turns.devices[decision.claim.name] = tuple(map(str, decision.devices))
            warm.set()
            if len(turns.devices) == len(claims):
                done.set()

    reporter = make_reporter(Random(1).random, Meters(process=False), Traces(), [told])
    loop, store = asyncio.get_running_loop(), Store(Semantics())
    queue: Queue[Unit] = Queue(base=1.0, cap=1.0, random=Random(0).random)
    kinds = ("ResourceSlice", "DeviceClass", "Node", "Pod", "ResourceClaim")
    intake = Intake(store, queue, kinds, reporter.report, ours=OURS)
    for kind in kinds[:3]:
        intake.take(Replaced(kind, tuple(one for one in fleet if type(one).__name__ == kind), ()))
    intake.take(Replaced("Pod", tuple(pods[:1]), ()))
    intake.take(Replaced("ResourceClaim", tuple(claims[:1]), ()))
    writer, pending = NoWrites(), Pending()
    handler = handler_of_claims(
        Timed, intake, writer, reporter.report, clock=loop.time, pending=pending, steps=100_000
    )
    fence = Fence(intake, writer, OURS, clock=loop.time, patience=1.0)
    reconciler = Reconciler(intake, [handler], reporter, clock=loop.time, fence=fence, pending=pending)
    store.snapshot()
    gc.collect()
    gc.freeze()  # as the process does once everything is listed
    fence.up.set()
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        for _ in range(WORKERS):
            group.create_task(reconciler.work())
        await warm.wait()  # selectors run once, whatever decides the others
        for kind, objects in (("Pod", pods[1:]), ("ResourceClaim", claims[1:])):
            for one in objects:
                intake.take(Changed(kind, one))
        handler.stopwatch.reset()
        writer.clock.reset()
        busy = thread_time()
        await done.wait()
        own = handler.stopwatch.own + writer.clock.own
        turns.whole = thread_time() - busy - writer.clock.seconds - own
        reconciler.stop()
    if reconciler.failures:
        raise Wrong(f"{reconciler.failures} turns failed")
    turns.deciding, turns.longest = handler.stopwatch.seconds, handler.longest
    return turns
