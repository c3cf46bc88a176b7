"""One schedule: a seed decides the fleet, what happens when, which faults there are, and every death."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from random import Random

from reconciler.api.validation.served_kinds import CLAIM, DEVICE_CLASS, NODE, POD, SLICE
from reconciler.cluster.http import connect
from reconciler.cluster.transport import Response, Transport
from reconciler.control.decisions.allocating import HeldTwice
from reconciler.control.decisions.declaration import Decision
from reconciler.embedded import run_controllers, serve
from tests.tools.admission_policies import announce
from tests.tools.simulation import fleet
from tests.tools.simulation.audit.auditor import Auditor
from tests.tools.simulation.audit.claims import was_freed
from tests.tools.simulation.audit.history import STALE
from tests.tools.simulation.audit.waiting import Undone
from tests.tools.simulation.clock import SimulationLoop
from tests.tools.simulation.configured import MOVES, PAIR, PREEMPTION, SETTINGS
from tests.tools.simulation.evictions import Evictions
from tests.tools.simulation.faults import Cut, Faulty, Weather
from tests.tools.simulation.memory import InMemory
from tests.tools.simulation.process import Say, quiet, tidy
from tests.tools.simulation.replica import Replica, awaits, bounded_clock, drawn_clock, outside
from tests.tools.simulation.sockets import Awaited
from tests.tools.simulation.terms import Terms
from tests.tools.simulation.world import World
from tests.tools.tuned import changed

PATIENCE = 250.0
"""Seconds of calm after which nothing may be left undone: silence on a watch, long waits and all. Less than a
watch lasts: what was seen wrong must not be healed by a watch that begins anew"""
PROMPT = 15.0
"""Half of the seconds within which a change is answered when only a write now and then is in the way"""
CALM = STALE + 5.0
"""Seconds of calm after which no decision can rest on an outdated picture any more"""
MOVING_TIME = 60.0
"""Seconds in which pods are moved before all has to be answered"""
CUTS = 0.3
"""Probability that, after something happened, a replica of a pair is cut off, or not any more"""
PAIR_PROMPT = 60.0
"""As `PROMPT`, where what is in the way may also be that a renewal fails"""

IN_MEMORY = 24
OVER_SOCKETS = 4
PAIRS = 6
GANGS = 5
EVICTIONS = 5
BURSTS = 4
MOVING = 3
ANNOUNCED, ANNOUNCED_PAIRS = 4, 2
"""Enough on each change: what takes more schedules to be noticed has a test of its own (`noticed_by.TESTS`,
`test_by_hand`). `make soak` plays thousands"""


@dataclass(frozen=True)
class Outcome:
    """What came of a schedule."""

    seed: int
    findings: tuple[str, ...]
    count: Counter[str]
    seconds: float
    """Of virtual time"""
    points: Counter[str]
    """Where the tasks of a replica that was killed were waiting: each place, how often"""


KINDS = {
    "sockets": "over HTTP, by way of the loopback device",
    "pair": "two replicas, of which one leads",
    "gangs": "with gangs",
    "evictions": "with preemption and budgets",
    "bursts": "with bursts of claims and pods of one template",
    "moves": "with preemption, and moves of pods that controllers replace",
    "announced": "with claims that are announced as they are created",
}


@tidy()
def run(seed: int, *kinds: str, say: Say | None = None) -> Outcome:
    """Play a schedule of some of `KINDS` together; without one, of a single replica.

    The same seed gives the same schedule; over sockets, nearly the same.
    """
    assert KINDS.keys() >= set(kinds)
    loop = SimulationLoop(sockets="sockets" in kinds)
    count: Counter[str] = Counter()
    with quiet(seed, count, say) as errors, asyncio.Runner(loop_factory=lambda: loop) as runner:
        schedule = Schedule(seed, loop, count, say, kinds)
        try:
            runner.run(schedule.play())
        except RuntimeError as exc:
            schedule.find(f"the simulation ended: {exc!r}")
    return Outcome(seed, (*schedule.auditor.findings, *errors), count, loop.true_time, schedule.points)


class Schedule:
    """A world, a reconciler in it, and an auditor over it."""

    def __init__(
        self, seed: int, loop: SimulationLoop, count: Counter[str], say: Say | None, kinds: tuple[str, ...]
    ) -> None:
        self._kinds = kinds
        self.random = Random(seed)
        self.loop = loop
        self.count = count
        self.say = say
        self.auditor = Auditor(fleet.NODES, fleet.CLASSES, fleet.OURS, lambda: loop.true_time)
        self.world = World(self.random, lambda: loop.true_time, count, kinds)
        if "announced" in kinds:
            announce(self.world.api, Random(f"announced {seed}"))
        self.auditor.given_away = self.world.claims.given_away
        self.auditor.cleared = self.world.claims.cleared
        self.evictions: Evictions | None = None
        if self.world.teams:
            own = Random(self.random.random())
            self.evictions = Evictions(self.world.api, own, lambda: loop.true_time, count, self.find)
        self.weather = Weather.drawn(seed, self.random, count)
        self.pace = self.random.choice((0.02, 0.3, 1.0))
        self.deaths = self.random.choice((0.0, 0.1, 0.2))
        self._mortal = True
        self._seen = dict.fromkeys((CLAIM, SLICE), 0)
        self._behind: Transport = InMemory(self.world.api)
        self._pair = "pair" in kinds
        self._prompt = PAIR_PROMPT if self._pair else PROMPT
        self._wrote = 0
        self._terms = Terms(leases=self._pair)
        self._replicas = [self._replica(number) for number in range(2 if self._pair else 1)]
        self._outside = outside()
        self._on_its_way: set[asyncio.Task[None]] = set()
        self.points: Counter[str] = Counter()

    # -- playing

    async def play(self) -> None:
        """Turmoil, then calm, then order, then the end."""
        async with AsyncExitStack() as stack:
            if "sockets" in self._kinds:
                url = await stack.enter_async_context(serve(self.world.api))
                transport = await stack.enter_async_context(connect(server=url))
                self._behind = Awaited(transport, self.loop)
            if self.world.controllers:
                await stack.enter_async_context(run_controllers(self.world.api))
            for replica in self._replicas:
                replica.start()
            await self._turmoil()
            await self._calm()
            self.weather.clear_up(writes=0.3)
            for _ in range(2):
                await self._order()
            self.weather.clear_up(writes=0.0)
            await self._end()
            for task in self._on_its_way:
                task.cancel()
            for replica in self._replicas:
                await replica.stopped()

    async def _turmoil(self) -> None:
        for _ in range(self.random.choice((0, 6, 12)) + (12 if self.evictions is not None else 0)):
            self._act(self.world.demand)
        for _ in range(20 if "moves" in self._kinds else 0):
            self._act(self.world.demand)
        if self.evictions is not None:
            await asyncio.sleep(PROMPT)  # pods have to run before they can be evicted
        # Many short ones find more than few long ones; some are long all the same.
        least, most = self.random.choice((*[(6, 24)] * 5, (24, 60)))
        for _ in range(self.random.randint(least, most)):
            self._act(self.world.act)
            if self.random.random() < self.deaths:
                victim = self.random.choice(self._replicas)
                self.loop.kill_at(self.random.randint(1, 300), partial(self._kill, victim))
            if self._pair and self.random.random() < CUTS:
                self._cut(self.random.choice(self._replicas))
                await asyncio.sleep(self.random.expovariate(1 / PAIR.lease_seconds))
            if self.random.random() < 0.6:
                await asyncio.sleep(self.random.expovariate(1 / self.pace))
            await self._resurrect()

    async def _resurrect(self) -> None:
        for replica in self._replicas:
            if replica.dies:
                await replica.killed()
                await asyncio.sleep(self.random.choice((0.0, 0.0, 0.01, 1.0)))
                replica.start()

    async def _calm(self) -> None:
        self.weather.clear_up(writes=0.0)  # nobody is killed from here on
        self._mortal = False
        for replica in self._replicas:
            replica.cut(Cut.NOTHING)
        await self._resurrect()
        self._act(self.world.mend)
        if "moves" in self._kinds:
            await asyncio.sleep(PROMPT)
            self._act(self.world.thin)
            await asyncio.sleep(MOVING_TIME)
        await self._until_done(PATIENCE)
        await asyncio.sleep(CALM)
        await self._until_done(2 * self._prompt)

    async def _order(self) -> None:
        """A few things at a time, each of which has to be answered at once."""
        for _ in range(self.random.randint(1, 4)):
            self._act(self.world.act)
        await self._until_done(2 * self._prompt)

    async def _end(self) -> None:
        self._act(self.world.let_go)
        await self._until_done(PATIENCE)
        self.look()
        for key, claim in self.auditor.claims.items():
            if (
                self.world.controllers
                or claim["metadata"].get("labels", {}).get("dra-reconciler.io/managed") == "true"
            ):
                self.find(f"claim {key} is left behind: {claim}")

    async def _until_done(self, seconds: float) -> None:
        """Wait until nothing is left undone, for so long at most."""
        until, pause = self.loop.true_time + seconds, seconds / 16
        undone = ["not looked yet"]
        while undone and self.loop.true_time < until:
            await asyncio.sleep(pause)
            undone = list(self.undone())
            pause *= 2
        for what in undone:
            self.find(f"after {seconds} s of calm: {what}")

    # -- looking

    def undone(self) -> Iterator[str]:
        self.look()
        classes = frozenset(one["metadata"]["name"] for one in self.world.ground.all(DEVICE_CLASS))
        return Undone(
            self.auditor,
            self.world.ground.all(POD),
            self.world.ground.all(NODE),
            classes,
            fleet.OURS,
            self.world.gangs,
        ).all()

    def look(self) -> None:
        """Let the auditor see every change since the last time."""
        store = self.world.api.store
        changes = [change for kind, at in self._seen.items() for change in store[kind].since(at, 10**6)]
        for change in sorted(changes, key=lambda change: change.record.version):
            record = change.record
            self._seen[record.kind] += 1
            content = None if change.deleted else record.object
            if record.kind is SLICE:
                self.auditor.slice_changed(record.key, content)
            else:
                before = self.auditor.claims.get(record.key)
                self.auditor.claim_changed(record.key, content)
                if content is not None and before is not None and was_freed(before, content):
                    self.world.claims.freed(content)
        if self.evictions is not None:
            self.evictions.look()
        if self.world.replicas is not None:
            self.world.replicas.look()

    def find(self, what: str) -> None:
        self.auditor.findings.append(f"t={self.loop.true_time:.3f}: {what}")

    # -- for the world and the replica

    def _act(self, act: Callable[[], None]) -> None:
        self.look()  # before history may be forgotten
        act()
        self.look()

    def _meddle(self, path: str) -> None:
        self._act(lambda: self.world.meddle(path))

    def _supplant(self, path: str) -> None:
        self._act(lambda: self.world.supplant(path))

    def _applied(self, write: str, answer: Response) -> None:
        self.count["writes"] += 1
        if self.say is not None:
            self.say(f"{self.loop.true_time:.6f} {write}: {answer.status}")
        self.look()
        if write.endswith("/eviction"):
            return  # judged already; a budget may not allow it
        if answer.status not in (200, 201, 404, 409):
            self.find(f"{write} was refused: {answer.body.decode()}")

    def _replica(self, number: int) -> Replica:
        clock = bounded_clock(self.random) if self._pair else drawn_clock(self.random)
        settings = PAIR if self._pair else SETTINGS
        if self.evictions is not None:
            settings = changed(settings, **PREEMPTION | (MOVES if "moves" in self._kinds else {}))
        heard = self._alarmed if self.evictions is None else self._heard
        return Replica(settings, clock, partial(self._connect, number), self.find, self._started, heard)

    def _cut(self, replica: Replica) -> None:
        """Let nothing through between a replica and the server, or nothing about Leases; or all again."""
        off = Cut.NOTHING
        if replica.severed is Cut.NOTHING:
            off = self.random.choice((Cut.ALL, Cut.LEASES))
            self.count["cut off" if off is Cut.ALL else "cut off from Leases"] += 1
        replica.cut(off)

    def _decides(self, number: int, life: int, write: str, answer: Response) -> None:
        if "/leases" not in write and answer.status in (200, 201) and self._wrote != number:
            self.count["lead changed"] += 1
            self._wrote = number
            self.auditor.life += 1  # what the one before remembered is gone
        if self._terms.applied(life, write, answer):
            self.find(f"{write} allocated, and its sender's successor had begun to allocate")
        if self.evictions is not None and write.endswith("/eviction"):
            self.evictions.answered(write, answer.status)
        elif answer.status == 200 and "/pods/" in write and not write.endswith("/status"):
            self.world.claims.ungated(write)
            if (wrong := self.world.gangs.ungated(write)) is not None:
                self.find(wrong)
        self._applied(write, answer)

    def _kill(self, replica: Replica) -> None:
        if self._mortal:
            self.count["killed"] += 1
            self.points.update(awaits(asyncio.all_tasks(self.loop)))
            replica.kill()

    def _started(self) -> None:
        self.count["started"] += 1
        if self.evictions is not None:
            self.evictions.started()
        self.auditor.life += 1

    def _alarmed(self, decision: Decision) -> None:
        if isinstance(decision, HeldTwice):
            self.count["alarms of doubles"] += 1

    def _heard(self, decision: Decision) -> None:
        self._alarmed(decision)
        if self.evictions is not None:
            self.evictions.on_decision(decision)

    def _connect(self, number: int) -> Faulty:
        return Faulty(
            behind=self._behind,
            weather=self.weather,
            meddle=self._meddle,
            supplant=self._supplant,
            die=lambda: self._kill(self._replicas[number]),
            applied=partial(self._decides, number, self._terms.begun()),
            world=self._outside,
            on_its_way=self._on_its_way,
        )
