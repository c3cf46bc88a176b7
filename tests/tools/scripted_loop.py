"""A loop over a handler that does what it is told, with a real queue and a virtual clock."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from reconciler.aio.queue import Queue
from reconciler.api.objects.changes import Recorded
from reconciler.api.objects.semantics import Semantics
from reconciler.cluster.writer import Writer
from reconciler.control.decisions.allocating import Waits
from reconciler.control.decisions.declaration import Decision, Reporter
from reconciler.control.fence import Fence
from reconciler.control.handler import Act, Answer, Ask, Decided, Given, Handler, Idle, Needs, Refused, Stuck
from reconciler.control.inputs import Answered, Outcome
from reconciler.control.intake import Intake
from reconciler.control.loop import Reconciler
from reconciler.control.ownership import Ownership
from reconciler.control.units import Unit
from reconciler.control.waiting import Pending, Wants
from reconciler.state.store import Store
from tests.tools.unit_pictures import key, put

BASE, CAP = 10.0, 80.0
"""Seconds of back-off"""

Makes = Callable[["Scripted"], Answer]
"""An answer, of which the parts tell the handler that they are called"""
GIVEN: Makes = lambda told: Given(told.outcome, lambda: told.did("assume"), told.write)  # noqa: E731
ASK = "devices?"
Need = Idle | Stuck | Act | str | None


def refused(reason: str = "DevicesInUse", *, room: bool = True, name: str = "a") -> Makes:
    """Waits for a device set free, and for news of the class `gpu`."""
    wants = Wants(frozenset({"gpu"}), room)

    def made(told: "Scripted") -> Answer:
        free = (lambda _: asyncio.sleep(0)) if _following(told.withdraws) else None
        return Refused(told.outcome, reason, wants, (key(name),), _waits, free)

    return made


def _waits(name: str) -> Waits:
    return Waits((key("a"),), None, "DevicesInUse", "why", decision_id=name)


def stuck(reason: str, name: str = "a") -> Stuck:
    return Stuck(Waits((key(name),), None, reason, "the message"), (key(name),))


@dataclass(frozen=True, slots=True)
class Did:
    """A call of the handler, when it came, and in whose turn."""

    what: str
    at: float
    unit: Unit | None


class Scripted(Handler):
    """Asks, answers and writes as it is told, for one worker; the last entry of a script repeats for ever.

    A write is an exception to raise, or what happens while it is under way.
    """

    def __init__(
        self,
        *,
        needs: Iterable[Need] = (ASK,),
        answers: Iterable[Makes | Answer | Exception] = (GIVEN,),
        writes: Iterable[Exception | Callable[[], object]] = (lambda: None,),
        unresolved: Iterable[Exception] = (),
        withdraws: Iterable[bool] = (False,),
    ) -> None:
        self.needs, self.answers, self.writes = deque(needs), deque(answers), deque(writes)
        self.unresolved, self.withdraws = deque(unresolved), deque(withdraws)
        self.calls: list[Did] = []
        self._unit: Unit | None = None
        self.written: list[Decided] = []

    def times(self, what: str, unit: Unit | None = None) -> list[float]:
        """When something was done, for one unit or for any."""
        return [call.at for call in self.calls if call.what == what and unit in (None, call.unit)]

    @property
    def done(self) -> list[str]:
        return [call.what for call in self.calls]

    def did(self, what: str) -> None:
        self.calls.append(Did(what, asyncio.get_running_loop().time(), self._unit))

    async def warm_up(self) -> None:
        self.did("warm up")

    def close(self) -> None:
        self.did("close")

    async def resolve(self, unit: Unit) -> None:
        self._unit = unit
        self.did("resolve")
        if self.unresolved:
            raise self.unresolved.popleft()

    def next(self, unit: Unit) -> Needs | None:  # noqa: ARG002
        self.did("next")
        needs: Need = _following(self.needs)
        return Ask(self.decide) if isinstance(needs, str) else needs

    def decide(self, _others: Iterable[Unit]) -> list[Answer]:
        self.did("decide")
        answer = _following(self.answers)
        if isinstance(answer, Exception):
            raise answer
        return [answer(self) if callable(answer) else answer]

    def outcome(self) -> Outcome:
        self.did("record")
        return Outcome()

    async def write(self, decided: Decided) -> None:
        self.did("write")
        happens = _following(self.writes)
        if isinstance(happens, Exception):
            raise happens
        await asyncio.sleep(0)
        happens()
        self.written.append(decided)


def _following(script: deque[Any]) -> Any:
    return script.popleft() if len(script) > 1 else script[0]


class NoWriter(Writer):
    """Nothing is fenced off here."""

    def __init__(self) -> None:
        """Without a client."""


class LoopStage:
    """A loop over an intake from which all is listed, and what is heard of it."""

    def __init__(self, intake: Intake, told: list[Decision]) -> None:
        self.intake, self.told = intake, told
        self.answered: list[tuple[str, str]] = []
        self.reporter = Reporter(lambda: 0.0, [told.append], answered=self._answered)
        self.clock = asyncio.get_running_loop().time
        self.pending = Pending()
        intake.listed.set()

    def run_with(self, handlers: Sequence[Handler], writer: Writer, ours: Ownership) -> None:
        """Build the loop."""
        self.fence = Fence(self.intake, writer, ours, clock=self.clock, patience=1.0)
        self.reconciler = Reconciler(
            self.intake, handlers, self.reporter, clock=self.clock, fence=self.fence, pending=self.pending
        )

    def _answered(self, reason: str, _seconds: float, decision_id: str) -> None:
        self.answered.append((decision_id, reason))

    def news(self, *raws: dict[str, Any]) -> None:
        """The watch tells of these objects."""
        put(self.intake, *raws)

    @asynccontextmanager
    async def at_work(self, workers: int = 1) -> AsyncIterator[None]:
        """Some workers beside the block; they are stopped at its end, and have to come home."""
        await self.fence.raise_()
        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(self.reconciler.work())
            yield
            self.reconciler.stop()


class Stage(LoopStage):
    """A loop of handlers that do as they are told, with one worker."""

    def __init__(self, *handlers: Scripted) -> None:
        told: list[Decision] = []
        queue: Queue[Unit] = Queue(base=BASE, cap=CAP, random=lambda: 1.0)
        self.recorded: list[str] = []
        """The names of decisions in the journal"""
        super().__init__(Intake(Store(Semantics()), queue, [], told.append, journal=self._record), told)
        self.run_with(handlers, NoWriter(), Ownership(alone=True))

    def _record(self, what: Recorded, _: Intake) -> None:
        if isinstance(what, Answered):
            self.recorded.append(what.id)

    @property
    def reasons(self) -> list[str]:
        """Of all refusals that were reported."""
        return [decision.reason for decision in self.told if isinstance(decision, Waits)]

    async def run(self, seconds: float, *raws: dict[str, Any]) -> None:
        """Take turns for so long, from when these objects are known."""
        async with self.at_work():
            self.news(*raws)
            await asyncio.sleep(seconds)
