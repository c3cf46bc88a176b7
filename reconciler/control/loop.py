"""The loop: takes a unit from the queue, asks its handler what it needs, decides, and writes."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import structlog
from msgspec import Struct

from reconciler.aio.queue import Closed
from reconciler.api.objects.meta import ObjectKey
from reconciler.control.build_ahead import build_ahead
from reconciler.control.decisions.declaration import Reporter
from reconciler.control.fence import Fence
from reconciler.control.handler import Act, Ask, Decided, Given, Handler, Idle, Later, Needs, Refused, Stuck
from reconciler.control.inputs import Answered
from reconciler.control.intake import Intake
from reconciler.control.units import Kind, Unit
from reconciler.control.waiting import Pending, Wants
from reconciler.errors import Conflict, Gone, Inconsistent, Paused, Rejected, Retry

log = structlog.get_logger()


class Failures:
    """Counts internal errors of jobs. The jobs go on."""

    def __init__(self) -> None:
        self.count = 0

    @contextmanager
    def contained(self, job: str, name: str = "") -> Iterator[None]:
        """Log and count an internal error of the block, which a job with this name tries again later.

        `name` is that of the object, if there is one. Lets Inconsistent through, which is a bug of ours that
        the process must not survive.
        """
        try:
            yield
        except Inconsistent:
            raise
        except Exception:
            self.count += 1
            log.exception("job failed", job=job, name=name)


Finish = Callable[[], Awaitable[None]]
"""What is left to do in a turn once its unit is decided: mostly a write"""


FORGET_SECONDS = 60.0
"""Between looks of a standby for units of deleted objects"""


class Reconciler(Struct, eq=False):
    """Reconciles units from the queue. Workers run concurrently: while one writes, others decide."""

    _intake: Intake
    _handlers: Sequence[Handler]
    """The first one that serves a unit reconciles it"""
    _reporter: Reporter
    clock: Callable[[], float]
    fence: Fence
    pending: Pending
    _not_before: dict[Unit, float] = {}
    _began: dict[Unit, float] = {}
    """Units whose answer is still worked on, and since when"""
    _batch: dict[Unit, asyncio.Future[Finish | None]] = {}
    """Units whose turns have come, in their order, to be decided together"""
    _deciding: asyncio.Task[None] | None = None
    _stopping: bool = False
    failures: int = 0
    """Reconciles that failed with an internal error"""
    _begun: int = 0
    """Reconciles that began. If others begin during one, other tasks run as well"""
    reconciles: int = 0
    """Reconciles that ended, failed ones included"""

    def stop(self) -> None:
        """Start no more reconciles. Running ones finish."""
        self._stopping = True
        self._intake.queue.close()
        for handler in self._handlers:
            handler.close()
        self.fence.up.set()  # wakes the workers that wait for it, so that they end

    async def work(self) -> None:
        """Reconcile until stopped. Nothing is decided before every kind is listed and the fence is up.

        Any number of workers may run. Cancelled during a write: its plan stays assumed.
        """
        for handler in self._handlers:
            await handler.warm_up()
        while not self._stopping:
            await self.fence.up.wait()
            try:
                async with self._intake.queue.take() as unit:
                    if not self.fence.up.is_set():  # it was lowered while this worker waited for a unit
                        self._intake.put(unit)
                        continue
                    self._begun = number = self._begun + 1
                    if not self._stopping:
                        await self.reconcile(unit)
                        self.reconciles += 1
                if self._begun == number:
                    await asyncio.sleep(0)  # perhaps nothing was awaited: let other tasks run
            except Closed:
                return

    async def forget_gone(self) -> None:
        """While the fence is down, drop the units of deleted objects now and then, until cancelled.

        On a standby they get no last turn. Without this it would keep one for each object that there ever
        was, and a new leader would work all of them off before its first decision.
        """
        while True:
            await asyncio.sleep(FORGET_SECONDS)
            if not self.fence.up.is_set():
                for unit in self._intake.queue.drop(self._intake.units.is_gone):
                    self._not_before.pop(unit, None)
                    self._done(unit)

    async def reconcile(self, unit: Unit) -> None:
        """Reconcile a unit and handle its errors. Raises only Inconsistent, which is a bug of ours."""
        if (left := self._not_before.pop(unit, 0.0) - self.clock()) > 0:
            self._hold_off(unit, left)
            return
        claims = self._intake.units.claims(unit)
        try:
            with self._reporter.reconciling(unit):
                await self._reconcile(unit)
        except Inconsistent:
            raise
        except Gone as exc:  # the watch reports the removal, to the units that use the object
            self._requeue_sharing(unit, claims, self._intake.queue.failed(unit))
            log.debug("object is gone", unit=str(unit), error=str(exc))
        except Conflict as exc:  # it was read again: decide again without a delay
            delay = self._requeue(unit, claims, exc.after)
            self._log_retry(unit, "conflict", exc, delay)
        except Paused:
            self._intake.pause.hold(unit, self._intake.units.sharing(unit, claims))
        except Retry as exc:
            delay = self._hold_off(unit, self._requeue(unit, claims, exc.after))
            self._log_retry(unit, "retry", exc, delay)
        except Rejected as exc:
            delay = self._hold_off(unit, self._requeue(unit, claims, 0.0))
            log.warning("write rejected", unit=str(unit), error=str(exc), pause=round(delay, 3))
        except Exception:
            # One claim must not stop the others.
            self.failures += 1
            delay = self._hold_off(unit, self._requeue(unit, claims, 0.0))
            log.exception("reconcile failed", unit=str(unit), pause=round(delay, 3))

        self._requeue_claims(unit, claims)

    def _requeue_claims(self, unit: Unit, claims: Iterable[ObjectKey]) -> None:
        """Queue the claims of a pod that was deleted during its reconcile.

        They were reconciled when it was deleted, but did nothing because the write was in flight.
        """
        if unit.kind is Kind.CLAIM:
            return
        for key in claims:
            if not self._intake.units.decides(unit, key):
                self._intake.put(Unit(Kind.CLAIM, key))

    @staticmethod
    def _log_retry(unit: Unit, cause: str, exc: Retry, delay: float) -> None:
        log.info(
            "reconcile will be retried", unit=str(unit), cause=cause, error=str(exc), pause=round(delay, 3)
        )

    async def _reconcile(self, unit: Unit) -> None:
        """Do the next step that the unit needs. Idempotent."""
        for handler in self._handlers:
            await handler.resolve(unit)
        if not self._batch:
            self._deciding = asyncio.create_task(self._decide_batch())
        place = self._batch[unit] = asyncio.get_running_loop().create_future()
        finish = await place
        if finish is not None:
            await finish()

    async def _decide_batch(self) -> None:
        """Decide the units whose turns have come by the time that the state is built, in their order."""
        try:
            await build_ahead(self._intake.store)
        finally:  # if it fails, so does each decision, in the turn of its unit
            self._decide_all()

    def _decide_all(self) -> None:
        """Nothing is awaited here, so that each decision sees the devices of those before it."""
        batch, self._batch = self._batch, {}
        for unit in [unit for unit, place in batch.items() if place.cancelled()]:
            del batch[unit]
        place_of = self._intake.units.place
        batch = dict(sorted(batch.items(), key=lambda turn: place_of(turn[0])))
        while batch:
            unit, *others = batch
            if not self._comes_first(unit):
                self._intake.put(unit)
                batch.pop(unit).set_result(None)
                continue
            try:
                for one, finish in self._next(unit, others):
                    batch.pop(one).set_result(finish)
            except Exception as exc:  # raised in the turn of the unit that it concerns
                batch.pop(next(iter(batch))).set_exception(exc)

    def _comes_first(self, unit: Unit) -> bool:
        """Whether no unit comes before it that was put into the queue while this one waited for its turn."""
        first = self._intake.queue.peek()
        place = self._intake.units.place
        return self._stopping or first is None or place(unit) <= place(first)

    def _next(self, unit: Unit, others: Sequence[Unit]) -> Iterator[tuple[Unit, Finish | None]]:
        """Do all that a unit needs but to write, and for those of the others that are decided with it.

        ->  these units, each with what is left to do; None if nothing is
        """
        for handler in self._handlers:
            match handler.next(unit):
                case None:
                    continue
                case Idle():
                    self._done(unit)
                    yield unit, None
                case Stuck() as stuck:
                    self._stuck(unit, stuck)
                    yield unit, None
                case Act(write=write):
                    self._stop_waiting(unit)
                    yield unit, partial(self._act, unit, write)
                case Ask() as ask:
                    yield from self._decide(handler, ask, unit, others)
            return
        yield unit, None

    def _stuck(self, unit: Unit, stuck: Stuck) -> None:
        if stuck.wants is None:
            self._stop_waiting(unit)
        else:
            self._wait(unit, stuck.wants)
        if self.pending.note(unit, stuck.waits.reason, stuck.counted):
            self._reporter.report(stuck.waits)

    async def _act(self, unit: Unit, write: Callable[[], Awaitable[None]]) -> None:
        await write()
        self._done(unit)
        await self._go_on(unit)

    def _decide(
        self, handler: Handler, ask: Ask, unit: Unit, others: Sequence[Unit]
    ) -> Iterator[tuple[Unit, Finish | None]]:
        """Decide, and count what was found as held. See `_next`."""
        began = self._began.setdefault(unit, self.clock())
        asked = [unit]
        for one, answer in zip(asked, ask.decide(self._alike(handler, asked, others)), strict=False):
            match answer:
                case None:
                    yield one, None
                    continue
                case Later(after=after):
                    del self._began[unit]
                    self._intake.put(unit, after=after)
                    yield one, None
                    continue
                case Act(write=write):
                    self._intake.pause.check()
                    yield one, partial(self._write_first, unit, write)
                    continue
            began = self._began.pop(one, began)
            decided = Decided(self._reporter.name(), began)
            seconds = self.clock() - began
            if self._intake.recorded:
                self._intake.note(Answered(decided.name, one, answer.outcome()))
            if isinstance(answer, Refused):
                if answer.free is None:
                    self._wait(one, answer.wants)
                yield one, partial(self._refuse, one, answer, decided.name, seconds)
                continue
            self._intake.pause.check()
            answer.assume()
            self._stop_waiting(one)
            yield one, partial(self._write, one, answer, decided, seconds)

    def _alike(self, handler: Handler, asked: list[Unit], others: Iterable[Unit]) -> Iterator[Unit]:
        """The units that the handler may decide together with the first one of `asked`, to which they are
        added: up to the first that another handler serves, or that needs something and is of another kind.
        """
        before = self._handlers[: self._handlers.index(handler)]
        for unit in others:
            if not self._comes_first(unit) or any(other.next(unit) is not None for other in before):
                return
            if unit.kind is asked[0].kind:
                asked.append(unit)
                yield unit
            elif not isinstance(handler.next(unit), Idle):
                return

    async def _write_first(self, unit: Unit, write: Callable[[], Awaitable[None]]) -> None:
        await write()
        self._intake.put(unit)

    async def _write(self, unit: Unit, given: Given, decided: Decided, seconds: float) -> None:
        self._reporter.answered("", seconds, decided.name)
        await given.write(decided)
        self._done(unit)
        await self._go_on(unit)

    async def _go_on(self, unit: Unit) -> None:
        """Do what a pod needs after a write, mostly to remove its gate: its next turn begins later. It gets
        one only if it needs more; that its own writes were seen is no reason for one.
        """
        if unit.kind is not Kind.POD:
            return
        needs = self._needs_now(unit)
        if isinstance(needs, Act):
            await needs.write()
            needs = self._needs_now(unit)
        if not isinstance(needs, Idle):
            self._intake.put(unit)

    def _needs_now(self, unit: Unit) -> Needs:
        """What a unit in its turn needs by the present state, in which all changes until now count."""
        self._intake.queue.has_seen(unit)
        found = (handler.next(unit) for handler in self._handlers)
        return next((needs for needs in found if needs is not None), Idle())

    async def _refuse(self, unit: Unit, refused: Refused, name: str, seconds: float) -> None:
        """Free what blocks the unit, or say why it waits."""
        self._reporter.answered(refused.reason, seconds, name)
        if refused.free is not None:
            await refused.free(name)
        elif self.pending.note(unit, refused.reason, refused.counted):
            self._reporter.report(refused.waits(name))

    def _wait(self, unit: Unit, wants: Wants) -> None:
        """Let a unit wait until a change wakes it or its back-off ends.

        Nothing is awaited between the decision and this: a change that it did not see must wake the unit.
        """
        missed = self._intake.waiting.missed(unit, wants)  # while a thread searched
        self._intake.waiting.add(unit, wants)
        delay = self._intake.queue.failed(unit)
        self._intake.put(unit, after=0.0 if missed else delay)

    def _requeue(self, unit: Unit, claims: Iterable[ObjectKey], after: float) -> float:
        """Requeue the unit, and the units that left one of these claims, or of its claims, to it."""
        self._began.pop(unit, None)
        delay = max(self._intake.queue.failed(unit), after)
        self._intake.put(unit, after=delay)
        self._requeue_sharing(unit, claims, delay)
        return delay

    def _requeue_sharing(self, unit: Unit, claims: Iterable[ObjectKey], delay: float) -> None:
        for other in self._intake.units.sharing(unit, claims):
            self._intake.put(other, after=delay)

    def _hold_off(self, unit: Unit, delay: float) -> float:
        """Do not reconcile the unit before the delay ends, even if an event wakes it: the event may come from
        the write that failed.
        """
        self._not_before[unit] = self.clock() + delay
        self._intake.put(unit, after=delay)
        return delay

    def _stop_waiting(self, unit: Unit) -> None:
        """End the pending state. Refusals must not count towards the back-off of its write."""
        if self._intake.waiting.has(unit):
            self._intake.waiting.drop(unit)
            self._intake.queue.forget(unit)

    def _done(self, unit: Unit) -> None:
        self._began.pop(unit, None)
        self._intake.waiting.drop(unit)
        self._intake.queue.forget(unit)
        self.pending.drop(unit)
