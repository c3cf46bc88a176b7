"""What can go wrong between a replica and the server, drawn from a seed. Fits before any transport."""

import asyncio
import json
import re
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from contextvars import Context
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from random import Random
from typing import NoReturn

from reconciler.cluster.transport import READS, Request, Response, Transport, WatchRequest, refusal
from reconciler.errors import Retry, Undecided


class Fault(StrEnum):
    """By what a request or a watch is met."""

    CONFLICT = "409 out of nowhere"
    BUSY = "429 with Retry-After"
    AWAY = "503"
    BROKEN = "500, not applied"
    BROKEN_AFTER = "500, applied"
    NOT_SENT = "connection refused"
    LOST = "timeout, not applied"
    LOST_AFTER = "timeout, applied"
    LATE = "timeout, applied later"
    GARBLED = "unreadable answer, applied"
    SLOW = "slow answer"
    INTERFERED = "somebody else wrote just before"
    OVERTAKEN = "somebody else wrote just after"
    KILLED = "killed with a write on the wire"
    LISTING_GONE = "410 for a listing"
    WATCH_REFUSED = "watch refused"
    WATCH_GONE = "410 in a watch"
    WATCH_ENDED = "watch ended"
    WATCH_CUT = "watch cut within a line"
    WATCH_STALLED = "watch stalled"
    WATCH_LAGGED = "watch far behind other kinds"
    WATCH_REPEATED = "event repeated"
    WATCH_REWOUND = "older event repeated"
    WATCH_ERROR = "error event"


# The more telling ones more often.
WRITES = (
    Fault.CONFLICT, Fault.BUSY, Fault.AWAY, Fault.BROKEN, Fault.BROKEN_AFTER, Fault.NOT_SENT, Fault.LOST,
    Fault.LOST_AFTER, Fault.LATE, Fault.LATE, Fault.GARBLED, Fault.SLOW,
    Fault.KILLED, *[Fault.INTERFERED] * 4, *[Fault.OVERTAKEN] * 2,
)  # fmt: skip
READING = (
    Fault.BUSY, Fault.AWAY, Fault.BROKEN, Fault.NOT_SENT, Fault.LOST, Fault.GARBLED, Fault.SLOW,
    Fault.LISTING_GONE,
)  # fmt: skip
WATCHING = (
    Fault.WATCH_GONE, Fault.WATCH_ENDED, Fault.WATCH_CUT, Fault.WATCH_STALLED, Fault.WATCH_LAGGED,
    Fault.WATCH_REPEATED, *[Fault.WATCH_REWOUND] * 3, Fault.WATCH_ERROR,
)  # fmt: skip
OPENING = (Fault.WATCH_REFUSED, Fault.WATCH_GONE)
LOSING = (Fault.WATCH_GONE, Fault.WATCH_GONE, Fault.WATCH_ENDED, Fault.WATCH_CUT, Fault.WATCH_STALLED)
"""What meets news of a deletion, three times as often: it is told once, and a listing says it by silence"""

KINDS = ("nodes", "pods", "resourceslices", "resourceclaims", "deviceclasses", "devicetaintrules")

LATEST = 10.0
"""Seconds after which even a request that was given up long ago has reached the server. Ten times what pairs
are told, since allocations need no such bound: they hit a version that is gone"""
STALL = 20.0
"""Seconds after which something on the way resets a connection on which nothing comes. Sooner than the
reconciler would give it up, so that the auditor need not put up with older pictures"""


class Cut(Enum):
    """What does not come through between a replica and the server."""

    NOTHING = 0
    LEASES = 1
    """Only these, so that a replica whose lead ends can still write"""
    ALL = 2


_OF_GANG = re.compile(r"/(g\d+)-[^/]*$")
HINDERED = 6
"""Faults that the writes of one object, or of one gang, meet at most once it has cleared up"""


@dataclass
class Weather:
    """Which faults occur and how often. Calm once `calm` is set."""

    seed: int
    kinds: frozenset[Fault]
    writes: float
    """Probability that a write is met by a fault; likewise the others"""
    reads: float
    lines: float
    latency: float
    """Seconds, mean, of one way"""
    lags: Mapping[str, float]
    """Plural of a kind -> seconds by which its watch is behind"""
    count: Counter[str]
    calm: bool = False
    """No faults at all, and all ways are short"""
    _drawn: Counter[str] = field(default_factory=Counter)
    _hindered: Counter[str] | None = None
    """Object or gang -> faults of its writes since it cleared up; None before"""

    @classmethod
    def drawn(cls, seed: int, random: Random, count: Counter[str]) -> "Weather":
        """Different seeds meet different faults: all at once would hide those that come after another."""
        share = random.choice((0.0, 0.3, 0.6, 1.0, 1.0))
        kinds = frozenset(fault for fault in Fault if random.random() < share)
        return cls(
            seed=seed,
            kinds=kinds,
            writes=random.choice((0.2, 0.4, 0.6)),
            reads=random.choice((0.0, 0.05, 0.2)),
            lines=random.choice((0.0, 0.1, 0.3)),
            latency=random.choice((0.001, 0.02, 0.1)),
            lags={kind: random.choice((0.0, 0.0, 0.5, 4.0)) for kind in KINDS},
            count=count,
        )

    def clear_up(self, *, writes: float) -> None:
        """From now on only writes are met by faults, so often, and those of one object a few times at most.

        With many in a row, by chance, an object backs off for longer than the time in which all must be done,
        and a gang backs off as one.
        """
        self._hindered = Counter()
        self.calm = writes == 0
        self.reads = self.lines = 0.0
        self.writes = writes
        self.latency = 0.001
        self.lags = {}

    def chance(self, what: str) -> Random:
        """Chance for one request or watch. Each has its own: tasks take turns in an order that may vary."""
        self._drawn[what] += 1
        return Random(f"{self.seed} {what} {self._drawn[what]}")

    def draw(self, random: Random, among: tuple[Fault, ...], probability: float) -> Fault | None:
        if self.calm or random.random() >= probability:
            return None
        possible = [fault for fault in among if fault in self.kinds]
        if not possible:
            return None
        fault = random.choice(possible)
        self.count[fault] += 1
        return fault

    def hinder(self, path: str, fault: Fault | None) -> Fault | None:
        """The fault of a write, or None if the object at the path was hindered often enough."""
        if fault is None or self._hindered is None:
            return fault
        thing = path.removesuffix("/status")
        if (gang := _OF_GANG.search(thing)) is not None:
            thing = gang[1]
        self._hindered[thing] += 1
        return fault if self._hindered[thing] <= HINDERED else None

    def way(self, random: Random) -> float:
        """Seconds from one end to the other."""
        return random.expovariate(1 / self.latency)


Meddle = Callable[[str], None]
"""Somebody else does something to the object at a path, or to what it depends on."""
Applied = Callable[[str, Response], None]
"""A write that the server has just answered"""


@dataclass
class Faulty:
    """A transport with weather. Once `dead`, nothing leaves it and nothing comes out of it."""

    behind: Transport
    weather: Weather
    meddle: Meddle
    supplant: Meddle
    die: Callable[[], None]
    applied: Applied
    world: Context
    """Where what is on its way goes on when the replica is no more"""
    dead: bool = False
    cut: Cut = Cut.NOTHING
    on_its_way: set[asyncio.Task[None]] = field(default_factory=set)

    async def send(self, request: Request) -> Response:
        self._check()
        writes = request.method not in READS
        what = f"{request.method} {request.path}"

        async def apply() -> Response:
            answer = await self.behind.send(request)
            if writes:
                self.applied(what, answer)
            return answer

        weather = self.weather
        random = weather.chance(what)
        fault = weather.draw(
            random, WRITES if writes else READING, weather.writes if writes else weather.reads
        )
        if writes:
            fault = weather.hinder(request.path, fault)
        if fault is Fault.LISTING_GONE and not request.query:
            fault = None  # listings expire, single objects do not
        try:
            async with asyncio.timeout(request.timeout if writes else min(request.timeout, STALL)):
                answer = await self._met(fault, random, request.path, apply, writes=writes)
        except TimeoutError:
            raise (Undecided if writes else Retry)(f"{what}: no answer") from None
        self._check()
        return answer

    async def _met(
        self,
        fault: Fault | None,
        random: Random,
        path: str,
        apply: Callable[[], Awaitable[Response]],
        *,
        writes: bool,
    ) -> Response:
        try:
            await asyncio.sleep(self.weather.way(random))
        except asyncio.CancelledError:
            if writes and random.random() < 0.5:  # it was on the wire already
                self._later(apply, random.uniform(0, 5))
            raise
        self._check()
        if self.cut is Cut.ALL or (self.cut is Cut.LEASES and "/leases" in path):
            await asyncio.Event().wait()
        if (refused := _refused(fault, random)) is not None:
            return refused
        if fault is Fault.NOT_SENT:
            raise Retry("connection refused")
        if fault is Fault.KILLED:
            self.die()
            if random.random() < 0.7:
                self._later(apply, random.choice((0.0, random.uniform(0, LATEST))))
        if fault in (Fault.LOST, Fault.LATE, Fault.KILLED):
            if fault is Fault.LATE:
                self._later(apply, random.uniform(0, LATEST))
            if random.random() < 0.5:
                self.supplant(path)
            await asyncio.Event().wait()
        if fault is Fault.INTERFERED:
            self.meddle(path)
        answer = await apply()
        if fault is Fault.OVERTAKEN:
            self.meddle(path)
        if fault is Fault.BROKEN_AFTER:
            return _status(random.choice((500, 502, 504)))
        if fault is Fault.GARBLED:
            return Response(answer.status, answer.headers, answer.body[: len(answer.body) // 2])
        if fault is Fault.LOST_AFTER:
            await asyncio.Event().wait()
        slow = fault is Fault.SLOW or (fault is Fault.OVERTAKEN and random.random() < 0.7)
        await asyncio.sleep(self.weather.way(random) * (50 if slow else 1))
        return answer

    async def _silence(self, idle: float) -> NoReturn:
        seconds = min(idle, STALL)
        await asyncio.sleep(seconds)
        raise Retry(f"nothing came for {seconds} s")

    def _later(self, apply: Callable[[], Awaitable[Response]], seconds: float) -> None:
        async def arrive() -> None:
            await asyncio.sleep(seconds)
            await apply()

        task = asyncio.get_running_loop().create_task(arrive(), context=self.world.copy())
        self.on_its_way.add(task)
        task.add_done_callback(self.on_its_way.discard)

    def _check(self) -> None:
        if self.dead:
            raise asyncio.CancelledError

    @asynccontextmanager
    async def stream(self, request: WatchRequest) -> AsyncIterator[AsyncIterator[bytes]]:
        self._check()
        path = request.path
        random = self.weather.chance(path)
        fault = self.weather.draw(random, OPENING, self.weather.reads)
        if fault is Fault.WATCH_REFUSED:
            raise refusal("GET", path, _status(random.choice((429, 500, 503))))
        if fault is Fault.WATCH_GONE:
            raise refusal("GET", path, _status(410))
        await asyncio.sleep(self.weather.way(random))
        async with (
            self.behind.stream(request) as lines,
            aclosing(self._lines(lines, path.rpartition("/")[2], random, request.idle)) as faulty,
        ):
            yield faulty

    async def _lines(
        self, lines: AsyncIterator[bytes], kind: str, random: Random, idle: float
    ) -> AsyncGenerator[bytes, None]:
        weather, before, last = self.weather, [b""], 0.0
        now = asyncio.get_running_loop().time
        async for line in lines:
            deleted = line.startswith(b'{"type":"DELETED"')
            fault = weather.draw(
                random, LOSING if deleted else WATCHING, weather.lines * (3 if deleted else 1)
            )
            lag = weather.way(random) * (100 if fault is Fault.WATCH_LAGGED else 1)
            if now() - last > lag:  # what comes soon after a late line comes with it
                lag += weather.lags.get(kind, 0.0)
            if fault is Fault.WATCH_STALLED:
                await self._silence(idle)
            await asyncio.sleep(min(lag, STALL / 2))
            last = now()
            self._check()
            if self.cut is Cut.ALL:
                await self._silence(idle)
            match fault:
                case Fault.WATCH_ENDED:
                    return
                case Fault.WATCH_CUT:
                    raise Retry("connection reset")
                case Fault.WATCH_GONE:
                    yield b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}'
                    return
                case Fault.WATCH_ERROR:
                    yield b'{"type":"ERROR","object":{"kind":"Status","code":500}}'
                    return
                case Fault.WATCH_REWOUND if len(before) > 1:
                    yield line
                    yield random.choice(before[1:])
                    continue
                case Fault.WATCH_REPEATED:
                    yield line
            yield line
            before.append(line)


def _refused(fault: Fault | None, random: Random) -> Response | None:
    match fault:
        case Fault.CONFLICT:
            return _status(409)
        case Fault.BUSY:
            return _status(429, {"Retry-After": str(random.randint(1, 3))})
        case Fault.AWAY:
            return _status(503, {"Retry-After": "1"} if random.random() < 0.5 else {})
        case Fault.BROKEN:
            return _status(random.choice((500, 502, 504)))
        case Fault.LISTING_GONE:
            return _status(410)
    return None


def _status(code: int, headers: dict[str, str] | None = None) -> Response:
    return Response(code, headers or {}, json.dumps({"kind": "Status", "message": "as drawn"}).encode())
