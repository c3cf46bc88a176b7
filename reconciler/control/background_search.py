"""Runs long searches in a thread, on a fork of the snapshot, so that they do not block the event loop.

Nearly all questions are answered on the loop within a step limit. An answer from a thread is checked against
the present state before it is used.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from reconciler.aio.worker_thread import Closed, WorkerThread
from reconciler.allocation.dra.budget import SelectorsNotRun, StepLimit, Unfinished, WhileWanted
from reconciler.allocation.dra.selector_masks import SHARE, evaluate_all_selectors, warm_up
from reconciler.api.objects.plan import Granted
from reconciler.control.decider import Decider, Refusal
from reconciler.control.intake import Intake
from reconciler.control.planner import Decide, Planner
from reconciler.control.units import Unit
from reconciler.state.devices.snapshot import Snapshot, still_valid, wants_all

QUICK_STEPS = 64
"""Nodes and devices that are tried on the loop, at most 0.25 ms each: 16 ms. A decision that finds devices
for a few requests tries a dozen."""
REPEATS = 3
"""How often an answer may be outdated by events before the unit backs off."""
PATIENCE = 0.05
"""Seconds for which other units wait for one whose selectors are being evaluated. Nearly all take a few
milliseconds, and the first unit in the queue should not lose its devices for that."""
SELDOM = 16
"""Search steps between two checks whether the answer is still wanted."""


class BackgroundSearch:
    """Answers a question on the loop, or in a thread. One long search and one selector run at a time."""

    def __init__(self, intake: Intake, planner: Planner, decider: Decider) -> None:
        self._intake = intake
        self._store = intake.store
        self._planner = planner
        self._decider = decider
        self._searches = WorkerThread("search")
        self._selectors = WorkerThread("selectors")
        self._parked: dict[WorkerThread, dict[Unit, None]] = {self._searches: {}, self._selectors: {}}
        self._long: set[Unit] = set()
        self._order = asyncio.Lock()
        self._awaiting = 0
        """Questions that wait for the answers of those before them"""
        self._calm = asyncio.Event()
        self._calm.set()
        self._answered = 0
        """Questions that were answered or given up so far"""
        self._warm = False

    async def warm_up(self) -> None:
        """Build what every decision needs, once. Other callers wait for it."""
        async with self._order:
            if not self._warm:
                self._warm = True
                with suppress(Closed):
                    await self._selectors.run(lambda _: warm_up())

    def close(self) -> None:
        """Stop running searches. Their callers get no answer."""
        self._searches.close()
        self._selectors.close()

    async def answer(self, unit: Unit, question: Decide) -> tuple[Decide, Granted | Refusal] | None:
        """Devices for a question, or a refusal. Devices are valid in the present state on return.

        Also returns the question that was answered: its nodes may differ. A refusal may be from an earlier
        snapshot, if the state changes faster than the search ends. None: the question no longer exists, or
        the unit is requeued, at the latest when a thread is free.
        """
        before = self._state()
        self._awaiting += 1
        self._calm.clear()
        try:
            await self._order.acquire()
        finally:
            self._awaiting -= 1
            self._note_calm()
        first = _Turn(self._order, self._note_calm)
        try:
            now = question if self._state() == before else self._again(unit, question)
            return await self._answer(unit, now, first) if now is not None else None
        finally:
            self._answered += 1
            first.release()

    def _state(self) -> tuple[int, int, int]:
        """Equal while the nodes of a question are the same: units before it in the queue may take room."""
        return self._answered, self._store.nominations.serial, self._intake.nodes.serial

    @property
    def busy(self) -> bool:
        """Whether questions wait for an answer, or would."""
        return self._awaiting > 0 or self._order.locked()

    @property
    def undecided(self) -> bool:
        """Whether a unit whose turn has come has no answer yet, those included whose search takes long."""
        return self.busy or self._searches.busy or self._selectors.busy

    async def calm(self) -> None:
        """Wait until a question is answered at once, unless its own search takes long."""
        while self.busy:
            await self._calm.wait()

    def _note_calm(self) -> None:
        if not self.busy:
            self._calm.set()

    def _again(self, unit: Unit, question: Decide) -> Decide | None:
        """The question as it is now. None if the unit needs something else; the unit is requeued then."""
        now = self._planner.next(unit)
        if isinstance(now, Decide) and _objects(now) == _objects(question):
            return now
        self._long.discard(unit)
        self._intake.put(unit)
        return None

    async def _answer(
        self, unit: Unit, question: Decide, first: "_Turn"
    ) -> tuple[Decide, Granted | Refusal] | None:
        found: Granted | Refusal | None = None
        for _ in range(REPEATS):
            snapshot = self._store.snapshot_for(question.own)
            lane = self._searches
            if unit not in self._long:
                try:
                    return question, self._decider.answer(question, snapshot, StepLimit(QUICK_STEPS))
                except SelectorsNotRun:
                    lane = self._selectors
                except Unfinished:
                    self._long.add(unit)
            if lane.busy:
                self._parked[lane][unit] = None
                return None
            began = asyncio.get_running_loop().time()
            try:
                found = await self._beside(lane, question, snapshot, first)
            except (Unfinished, Closed):
                self._long.discard(unit)
                # Delay it by the time it took, so that it uses the thread for half of the time at most.
                taken = asyncio.get_running_loop().time() - began if lane is self._selectors else 0.0
                self._intake.put(unit, after=taken)
                return None
            now = self._again(unit, question)
            if now is None:
                return None
            if found is not None and self._is_true(found, now, question, snapshot):
                self._long.discard(unit)
                return now, found
            question = now
        self._long.discard(unit)
        if not isinstance(found, Refusal):
            self._intake.put(unit, after=self._intake.queue.failed(unit))
            return None
        return question, found

    async def _beside(
        self, lane: WorkerThread, question: Decide, snapshot: Snapshot, first: "_Turn"
    ) -> Granted | Refusal | None:
        """The answer of a thread. None if it only evaluated the selectors."""
        timer = asyncio.get_running_loop().call_later(PATIENCE, first.release)
        try:
            if lane is self._selectors:
                if await lane.run(partial(_run_selectors, question, snapshot)):
                    return None
                raise Unfinished("the selectors of other units run next")
            first.release()
            apart = snapshot.fork()
            return await lane.run(
                lambda wanted: self._decider.find(
                    question, apart, WhileWanted(lambda: wanted() and self._has(question), SELDOM)
                )
            )
        finally:
            timer.cancel()
            parked = list(self._parked[lane])
            self._parked[lane].clear()
            for unit in parked:
                self._intake.put(unit)

    def _has(self, question: Decide) -> bool:
        """Whether the claims are unchanged. Called by other threads: only dictionary lookups."""
        return all(self._store.claims.get(claim.key) is claim for claim in question.claims)

    def _is_true(self, found: Granted | Refusal, now: Decide, question: Decide, before: Snapshot) -> bool:
        """Whether an answer from an earlier snapshot is valid for the present question and state."""
        snapshot = self._store.snapshot_for(now.own)
        if isinstance(found, Refusal):
            if snapshot.version != before.version or now.nodes != question.nodes or now.together is not None:
                return False
            self._decider.remember(now, snapshot, found)
            return True
        if not self._planner.still_serves(now, found):
            return False
        devices = [result.id for plan in found.plans for result in plan.allocation.devices.results]
        return still_valid(found.node, devices, before, snapshot, whole=any(map(wants_all, now.claims)))


class _Turn:
    """The lock on the order of answers. Released once, at the latest with the answer."""

    def __init__(self, order: asyncio.Lock, on_release: Callable[[], None]) -> None:
        self._order: asyncio.Lock | None = order
        self._on_release = on_release

    def release(self) -> None:
        """Let the next unit be answered."""
        if self._order is not None:
            self._order.release()
            self._order = None
            self._on_release()


def _run_selectors(question: Decide, snapshot: Snapshot, wanted: Callable[[], bool]) -> bool:
    """Run the selectors of the claims, and those of the demand of their policies. Returns whether all ran."""
    if not evaluate_all_selectors(question.claims, snapshot, wanted, SHARE):
        return False
    policies = question.policies
    if not policies.uses_demand or policies.demand.is_ready(snapshot):
        return True
    # One after the other: that one shape takes too many steps says nothing about the next.
    return all(evaluate_all_selectors([one], snapshot, wanted, SHARE) for one in policies.demand.claims)


def _objects(question: Decide) -> tuple[list[int], list[int]]:
    """The identities of the objects in a question. Its nodes may differ."""
    return [id(claim) for claim in question.claims], [id(claim) for claim in question.held]
