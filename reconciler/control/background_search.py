"""Runs long searches in a thread, on a fork of the snapshot, so that they do not block the event loop.

Nearly all questions are answered on the loop within a step limit. A turn whose question takes longer ends
without an answer. The unit has another turn when the thread has one, which is checked against the present
state before it is used.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

from msgspec import Struct

from reconciler.aio.tasks import Closed, Patience, ShouldContinue, WorkerThread
from reconciler.allocation.dra.budget import Budget, SelectorsNotRun, StepLimit, Unfinished, WhileWanted
from reconciler.allocation.dra.selector_masks import SHARE, evaluate_all_selectors, warm_up
from reconciler.api.objects.plan import Granted
from reconciler.control.decider import Decider, Refusal
from reconciler.control.handler import Decide
from reconciler.control.inputs import Asked
from reconciler.control.intake import Intake
from reconciler.control.planner import Planner
from reconciler.control.units import Unit
from reconciler.state.devices.snapshot import Snapshot, still_valid, wants_all

REPEATS = 3
"""How often an answer may be outdated by events before the unit backs off."""
PATIENCE = 0.05
"""Seconds of processor time for which other units wait for one whose selectors are evaluated. Nearly all
take a few milliseconds, and the first unit in the queue should not lose its devices for that, nor because
other programs keep the machine busy."""
LONGEST_PATIENCE = 1.0
"""The same by the clock"""
SELDOM = 16
"""Search steps between two checks whether the answer is still wanted."""

T = TypeVar("T")
Q = TypeVar("Q")
A = TypeVar("A")


class Lane(Generic[T]):
    """A thread that works for one unit at a time. A unit has another turn when its work is done.

    Units that find the thread busy are requeued when it is free.
    """

    def __init__(self, name: str, intake: Intake) -> None:
        """`name` is that of the thread."""
        self.thread = WorkerThread(name)
        self._intake = intake
        self._work: dict[Unit, asyncio.Task[T | None]] = {}
        """What the thread does for a unit, or did, until the unit takes the result"""
        self._parked: dict[Unit, None] = {}
        self._begun = False

    @property
    def busy(self) -> bool:
        """Whether it works for some unit."""
        return self._begun or self.thread.busy

    def knows(self, unit: Unit) -> bool:
        """Whether it works for a unit, or has a result for it."""
        return unit in self._work

    def works_for(self, unit: Unit) -> bool:
        """Whether the work for a unit has not ended. The unit is requeued when it has."""
        return unit in self._work and not self._work[unit].done()

    def start(self, unit: Unit, work: Callable[[ShouldContinue], T]) -> None:
        """Work for a unit, or let it wait until the thread is free. `work` may raise Unfinished: there is no
        result then, and the unit begins afresh.
        """
        if self.busy:
            self.park(unit)
            return
        self._begun = True
        is_due = self._intake.queue.is_due  # others need their results no more
        self._work = {one: task for one, task in self._work.items() if not task.done() or is_due(one)}
        self._work[unit] = asyncio.create_task(self._run(unit, work))

    def park(self, unit: Unit) -> None:
        """Requeue a unit when the thread is free."""
        self._parked[unit] = None

    def release(self) -> None:
        """Requeue the units that wait for the thread."""
        parked, self._parked = self._parked, {}
        for unit in parked:
            self._intake.put(unit)

    def take(self, unit: Unit) -> T | None:
        """The result for a unit, once. None if there is none. Raises what its work raised."""
        return self._work.pop(unit).result() if unit in self._work else None

    def close(self) -> None:
        """Stop the work. No other begins."""
        self.thread.close()

    async def _run(self, unit: Unit, work: Callable[[ShouldContinue], T]) -> T | None:
        try:
            return await self.thread.run(work)
        except (Unfinished, Closed):
            return None
        finally:
            self._begun = False
            self._intake.put(unit)
            self.release()


class Found(Struct, Generic[Q, A], frozen=True):
    """The answer of a search in a thread, and the state that it was found from."""

    question: Q
    snapshot: Snapshot
    serial: int
    """Number of changes of nodes and pods at that time"""
    answer: A


class LongSearch(ABC, Generic[Q, A]):
    """Answers a question on the loop within a step limit, otherwise in a thread, one at a time. An answer
    from the thread is checked against the present state before it is used.
    """

    quick_steps: int
    """Nodes and devices that are tried on the loop"""
    refusal: type[A]
    """The class of the answers that refuse"""

    def __init__(self, name: str, intake: Intake) -> None:
        """`name` is that of the thread."""
        self._intake = intake
        self._store = intake.store
        self._lane: Lane[Found[Q, A]] = Lane(name, intake)
        self._outdated: dict[Unit, int] = {}
        """Units whose search takes long, and how many answers to them came too late"""

    def close(self) -> None:
        """Stop a running search. Its unit gets no answer."""
        self._lane.close()

    def answer_for(self, unit: Unit, question: Q) -> A | None:
        """What was found. Devices are valid in the present state, and in no trial.

        A refusal may be from an earlier state, if the state changes faster than the search ends. None: the
        unit is requeued, at the latest when the thread is free.
        """
        if self._lane.works_for(unit):
            return None
        found = self._lane.take(unit)
        if found is None or not self.is_same(found.question, question):  # it asks for something else now
            self._outdated.pop(unit, None)
            try:
                answer = self.on_loop(question, StepLimit(self.quick_steps))
            except Unfinished:
                pass
            else:
                self._intake.note(Asked((unit,)))
                return answer
        elif self.is_true(found, question):
            self._outdated.pop(unit, None)
            return found.answer
        else:
            times = self._outdated.pop(unit, 0) + 1
            if times >= REPEATS:
                if isinstance(found.answer, self.refusal):
                    return found.answer
                self._intake.put(unit, after=self._intake.queue.failed(unit))
                return None
            known = {one: late for one, late in self._outdated.items() if self._lane.knows(one)}
            self._outdated = known | {unit: times}
        search = self.in_thread(question)
        if not self._lane.busy:
            self._intake.note(Asked((unit,)))
        self._intake.waiting.mark(unit)
        self._lane.start(unit, search)
        return None

    @abstractmethod
    def on_loop(self, question: Q, budget: Budget) -> A:
        """The answer in the present state. Raises Unfinished as `budget` does."""

    @abstractmethod
    def in_thread(self, question: Q) -> Callable[[ShouldContinue], Found[Q, A]]:
        """What finds the answer in a thread, on a fork of the present state."""

    @abstractmethod
    def is_same(self, then: Q, now: Q) -> bool:
        """Whether nothing that matters to an answer has changed in the objects of a question."""

    @abstractmethod
    def is_true(self, found: Found[Q, A], now: Q) -> bool:
        """Whether an answer from an earlier state is valid for the present question and state."""


class _SelectorsFirst(Exception):
    """A search of any length needs selectors that have not run."""


class BackgroundSearch(LongSearch[Decide, Granted | Refusal]):
    """Answers a question about claims. One long search and one selector run at a time."""

    quick_steps = 64
    """At most 0.25 ms each: 16 ms. A decision that finds devices for a few requests tries a dozen."""
    refusal = Refusal

    def __init__(
        self,
        intake: Intake,
        planner: Planner,
        decider: Decider,
        sample: Callable[[Decide, Granted | Refusal], None] = lambda *_: None,
    ) -> None:
        """`sample` gets what is answered in the present state, before anything is assumed."""
        super().__init__("search", intake)
        self._sample = sample
        self._planner = planner
        self._decider = decider
        self._selectors: Lane[float] = Lane("selectors", intake)
        self._patience: Patience | None = None
        """While all units wait for the selectors of one"""
        self._warm = asyncio.Lock()
        self._is_warm = False

    async def warm_up(self) -> None:
        """Build what every decision needs, once. Other callers wait for it."""
        async with self._warm:
            if not self._is_warm:
                self._is_warm = True
                with suppress(Closed):
                    await self._selectors.thread.run(lambda _: warm_up())

    def close(self) -> None:
        super().close()
        self._selectors.close()

    def is_free_for(self, unit: Unit) -> bool:
        """Whether a unit waits for no thread, and has no answer of one."""
        return not (self._is_patient() or self._lane.knows(unit) or self._selectors.knows(unit))

    def _is_patient(self) -> bool:
        """Whether all units wait for the selectors of one."""
        return self._selectors.busy and self._patience is not None

    def answer(self, unit: Unit, question: Decide) -> Granted | Refusal | None:
        """That of `answer_for`, unless the selectors of a unit have to run first."""
        if self._is_patient():
            self._selectors.park(unit)
            return None
        if self._lane.works_for(unit) or self._selectors.works_for(unit):
            return None
        if (pause := self._selectors.take(unit)) is not None and pause > 0:
            # Delay it by the time it took, so that it uses the thread for half of the time at most.
            self._intake.put(unit, after=pause)
            return None
        try:
            return self.answer_for(unit, question)
        except _SelectorsFirst:
            self._run_selectors(unit, question, self._store.snapshot_for(question.own))
            return None

    def on_loop(self, question: Decide, budget: Budget) -> Granted | Refusal:
        try:
            answer = self._decider.answer(question, self._store.snapshot_for(question.own), budget)
        except SelectorsNotRun as exc:
            raise _SelectorsFirst from exc
        self._sample(question, answer)
        return answer

    def in_thread(self, question: Decide) -> Callable[[ShouldContinue], Found[Decide, Granted | Refusal]]:
        snapshot, serial = self._store.snapshot_for(question.own), self._intake.nodes.serial
        apart = snapshot.fork()

        def search(wanted: ShouldContinue) -> Found[Decide, Granted | Refusal]:
            budget = WhileWanted(lambda: wanted() and self._has(question), SELDOM)
            return Found(question, snapshot, serial, self._decider.find(question, apart, budget))

        return search

    def is_same(self, then: Decide, now: Decide) -> bool:
        return _objects(then) == _objects(now)

    def _run_selectors(self, unit: Unit, question: Decide, snapshot: Snapshot) -> None:
        loop = asyncio.get_running_loop()

        def run(wanted: ShouldContinue) -> float:
            """Seconds that it took, if the selectors of other units run next."""
            began = loop.time()
            return 0.0 if _run_selectors(question, snapshot, wanted) else loop.time() - began

        if not self._selectors.busy:
            if self._patience is not None:
                self._patience.cancel()
            self._patience = Patience(
                PATIENCE, LONGEST_PATIENCE, lambda: self._selectors.busy, self._end_patience
            )
        self._selectors.start(unit, run)

    def _end_patience(self) -> None:
        """Let other units go on although the selectors still run."""
        self._patience = None
        self._selectors.release()

    def _has(self, question: Decide) -> bool:
        """Whether the claims are unchanged. Called by other threads: only dictionary lookups."""
        known = self._store.claims
        return all(claim.is_special or known.get(claim.key) is claim for claim in question.claims)

    def is_true(self, found: Found[Decide, Granted | Refusal], now: Decide) -> bool:
        snapshot = self._store.snapshot_for(now.own)
        answer, question = found.answer, found.question
        if isinstance(answer, Refusal):
            if (
                snapshot.version != found.snapshot.version
                or now.nodes != question.nodes
                or now.together is not None
            ):
                return False
            self._decider.remember(now, snapshot, answer)
            return True
        if not self._planner.still_serves(now, answer):
            return False
        devices = [result.id for plan in answer.plans for result in plan.allocation.devices.results]
        return still_valid(
            answer.node, devices, found.snapshot, snapshot, whole=any(map(wants_all, now.claims))
        )


def _run_selectors(question: Decide, snapshot: Snapshot, wanted: Callable[[], bool]) -> bool:
    """Run the selectors of the claims, and those of the demand of their policies. Returns whether all ran."""
    if not evaluate_all_selectors(question.claims, snapshot, wanted, SHARE):
        return False
    policies = question.policies
    if not policies.uses_demand or policies.demand.is_ready(snapshot):
        return True
    # One after the other: that one shape takes too many steps says nothing about the next.
    return all(evaluate_all_selectors([one], snapshot, wanted, SHARE) for one in policies.demand.claims)


def _objects(question: Decide) -> tuple[list[str], list[int]]:
    """The identities of the objects in a question. Its nodes may differ."""
    claims = [claim.metadata.uid if claim.is_special else str(id(claim)) for claim in question.claims]
    return claims, [id(claim) for claim in question.held]
