"""Candidates with clocks of their own on one server, ways that lose and delay, and who may write when."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from reconciler.cluster.client import Client
from reconciler.cluster.transport import Lines, Request, Response, WatchRequest
from reconciler.embedded import ApiServer
from reconciler.errors import ReconcilerError, Retry, Undecided
from reconciler.ha.campaign import Campaign, FencedTransport, Leases
from reconciler.ha.elector import Elector, Terms
from reconciler.ha.shard import Shard
from tests.tools.simulation.clock import OURS, Clock, SimulationLoop
from tests.tools.simulation.memory import InMemory

TERMS = Terms()
NAMESPACE = "kube-system"
DEVICE = "/device"


@dataclass
class Device:
    """What only one may write to. Knows who has something on its way, and finds whoever comes beside."""

    loop: SimulationLoop
    shards: dict[str, Shard] = field(default_factory=dict)
    under_way: list[tuple[str, float]] = field(default_factory=list)
    """Who began to write, and until when that may arrive"""
    writes: dict[str, int] = field(default_factory=dict)
    last: float = 0.0
    findings: list[str] = field(default_factory=list)

    def begun(self, who: str, slowest: float) -> None:
        now = self.loop.true_time
        self.under_way = [one for one in self.under_way if one[1] > now]
        for other, until in self.under_way:
            if other != who and self.shards[other].overlaps(self.shards[who]):
                self.findings.append(f"t={now:.3f}: {who} writes, and {other} may until {until:.3f}")
        self.under_way.append((who, now + slowest))
        self.writes[who] = self.writes.get(who, 0) + 1
        self.last = now

    def answered(self, who: str) -> None:
        self.under_way = [one for one in self.under_way if one[0] != who]


@dataclass
class Ways:
    """The way from one candidate to the server: slow, lossy, or cut."""

    candidate: str
    server: "Server"
    device: Device
    random: Random
    trouble: float
    clock: Clock
    cut: bool = False

    async def send(self, request: Request) -> Response:
        writes = request.method != "GET"
        if request.path == DEVICE:  # from the door on it counts: it may be late by as long as it may take
            self.device.begun(self.candidate, request.timeout / self.clock.rate + TERMS.write)
        try:
            async with asyncio.timeout(request.timeout):
                answer = await self._met(writes, lambda: self._apply(request))
        except TimeoutError:
            raise (Undecided if writes else Retry)("no answer") from None
        if request.path == DEVICE:
            self.device.answered(self.candidate)
        return answer

    async def _apply(self, request: Request) -> Response:
        if request.path == DEVICE:
            return Response(200, {}, b"{}")
        return await self.server.behind.send(request)

    async def _met(self, writes: bool, apply: Callable[[], Awaitable[Response]]) -> Response:
        troubled = self.random.random() < self.trouble
        await asyncio.sleep(self.random.expovariate(2.0 if troubled else 200.0))
        fate = self.random.choice(("lost", "late", "unheard", "slow", "failed")) if troubled else ""
        if self.cut or fate == "lost":
            await asyncio.Event().wait()
        if fate == "late" and writes:
            self.server.later(apply, self.random.uniform(0, TERMS.write))
            await asyncio.Event().wait()
        answer = await apply()
        if fate == "unheard":
            await asyncio.Event().wait()
        if fate == "failed":
            return Response(500, {}, b"{}")
        await asyncio.sleep(self.random.expovariate(0.5 if fate == "slow" else 200.0))
        return answer

    def stream(self, request: WatchRequest) -> Lines:
        raise NotImplementedError(request.path)


class Server:
    """An API server that may lose its memory."""

    def __init__(self, loop: SimulationLoop, random: Random) -> None:
        self.loop = loop
        self.outside = _context(None)
        self.on_the_way: set[asyncio.Task[Any]] = set()
        self._random = random
        self.restart()

    def restart(self) -> None:
        """Begin with nothing, versions included."""
        start = datetime(2026, 1, 1, tzinfo=UTC)
        self.api = ApiServer(
            now=lambda: start + timedelta(seconds=self.loop.true_time), random=Random(self._random.random())
        )
        self.behind = InMemory(self.api)

    def later(self, apply: Callable[[], Awaitable[Response]], seconds: float) -> None:
        async def arrive() -> None:
            await asyncio.sleep(seconds)
            await apply()

        task = asyncio.get_running_loop().create_task(arrive(), context=self.outside.copy())
        self.on_the_way.add(task)
        task.add_done_callback(self.on_the_way.discard)


class Candidate:
    """Campaigns, and writes all the time while it may."""

    def __init__(self, name: str, shard: Shard, clock: Clock, ways: Ways, random: Random) -> None:
        self.name = name
        self.ways = ways
        loop = asyncio.get_running_loop()
        self.elector = Elector(name, shard, TERMS)
        self.door = FencedTransport(ways, self.elector, loop.time)
        self._leases = Leases(Client(ways, read_seconds=5, write_seconds=5), NAMESPACE, now=_now)
        self.began = 0
        self.campaign = Campaign(
            self.elector,
            self._leases,
            clock=loop.time,
            now=_now,
            random=random.random,
            begin=self._begin,
            end=lambda: None,
        )
        self._random = random
        self._context = _context(clock)
        self._tasks: list[asyncio.Task[None]] = []

    async def _begin(self) -> None:
        self.began += 1

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        for work in (self.campaign.run(), self._write()):
            self._tasks.append(loop.create_task(work, context=self._context.copy()))

    async def _write(self) -> None:
        while True:
            with suppress(ReconcilerError):
                await self.door.send(Request("PATCH", DEVICE, timeout=TERMS.write))
            await asyncio.sleep(self._random.expovariate(4.0))

    async def kill(self) -> None:
        """At once; what is on its way goes on."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def stop(self) -> None:
        """In order."""

        async def give_up() -> None:
            with suppress(ReconcilerError):
                await self.campaign.give_up(self.door.quiet_at)

        await self.kill()
        await asyncio.get_running_loop().create_task(give_up(), context=self._context.copy())


def candidate(
    name: str, shard: Shard, server: Server, device: Device, random: Random, *, trouble: float
) -> Candidate:
    """A candidate whose clock is as wrong as it may be, one way or the other, and starts anywhere."""
    error = TERMS.clock_error
    clock = Clock(rate=random.choice((1 - error, 1.0, 1 + error)), start=random.uniform(0, 1000))
    device.shards[name] = shard
    ways = Ways(name, server, device, Random(random.random()), trouble, clock)
    draw = Random(random.random())
    return _context(clock).run(lambda: Candidate(name, shard, clock, ways, draw))


def _context(clock: Clock | None) -> Context:
    context = copy_context()
    context.run(OURS.set, clock)
    return context


def _now() -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC)
