"""A loop over a handler that does what it is told, with a real queue and a virtual clock."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from reconciler.aio.queue import Queue
from reconciler.api.objects.changes import Recorded
from reconciler.api.objects.semantics import Semantics
from reconciler.cluster.writer import Writer
from reconciler.control.decisions.allocating import Waits
from reconciler.control.decisions.declaration import Decision, Reporter
from reconciler.control.fence import Fence
from reconciler.control.handler import Act, Ask, Decided, Given, Handler, Idle, Later, Refused, Stuck
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

Answer = Given[str] | Refused[str] | Later | Act | None
Need = Idle | Stuck | Act | Ask[str] | None


def given(devices: str = "devices") -> Given[str]:
    return Given(devices)


def refused(reason: str = "DevicesInUse", *, room: bool = True, name: str = "a") -> Refused[str]:
    """Waits for a device set free, and for news of the class `gpu`."""
    return Refused("why", reason, Wants(frozenset({"gpu"}), room), (key(name),))


def stuck(reason: str, name: str = "a") -> Stuck:
    return Stuck(Waits((key(name),), None, reason, "the message"), (key(name),))


@dataclass(frozen=True, slots=True)
class Did:
    """A call of the handler, when it came, and in whose turn."""

    what: str
    at: float
    unit: Unit | None


class Scripted(Handler[str, str, str]):
    """Asks, answers and writes as it is told, for one worker; the last entry of a script repeats for ever.

    A write is an exception to raise, or what happens while it is under way.
    """

    def __init__(
        self,
        *,
        needs: Iterable[Need] = (Ask("devices?"),),
        answers: Iterable[Answer | Exception] = (Given("devices"),),
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

    def _did(self, what: str) -> None:
        self.calls.append(Did(what, asyncio.get_running_loop().time(), self._unit))

    async def warm_up(self) -> None:
        self._did("warm up")

    def close(self) -> None:
        self._did("close")

    async def resolve(self, unit: Unit) -> None:
        self._unit = unit
        self._did("resolve")
        if self.unresolved:
            raise self.unresolved.popleft()

    def next(self, unit: Unit) -> Need:  # noqa: ARG002
        self._did("next")
        return _following(self.needs)

    def decide(self, question: str, others: Iterable[Unit]) -> list[Answer]:  # noqa: ARG002
        self._did("decide")
        answer = _following(self.answers)
        if isinstance(answer, Exception):
            raise answer
        return [answer]

    def outcome(self, answer: Given[str] | Refused[str]) -> Outcome:  # noqa: ARG002
        self._did("record")
        return Outcome()

    def assume(self, grant: str) -> None:  # noqa: ARG002
        self._did("assume")

    async def write(self, grant: str, decided: Decided) -> None:  # noqa: ARG002
        self._did("write")
        happens = _following(self.writes)
        if isinstance(happens, Exception):
            raise happens
        await asyncio.sleep(0)
        happens()
        self.written.append(decided)

    def make_room(self, refusal: str, name: str) -> Callable[[], Awaitable[None]] | None:  # noqa: ARG002
        return partial(asyncio.sleep, 0) if _following(self.withdraws) else None

    def waits(self, refusal: str, name: str) -> Waits:
        return Waits((key("a"),), None, "DevicesInUse", refusal, decision_id=name)


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

    def run_with(self, handlers: Sequence[Handler[Any, Any, Any]], writer: Writer, ours: Ownership) -> None:
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
