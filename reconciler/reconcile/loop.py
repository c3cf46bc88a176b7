"""One turn: look at what a unit needs, decide, see it through."""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext

import structlog

from reconciler.aio.queue import Closed
from reconciler.cluster.writer import Writer
from reconciler.errors import Conflict, Gone, Inconsistent, Paused, Rejected, Retry
from reconciler.inventory.snapshot import Snapshot
from reconciler.objects.claims import ResourceClaim
from reconciler.objects.core import Pod
from reconciler.objects.meta import ObjectKey
from reconciler.objects.plan import Granted, Plan
from reconciler.reconcile.ahead import build_ahead
from reconciler.reconcile.aside import Aside
from reconciler.reconcile.deciding import Decider, Refusal
from reconciler.reconcile.decisions import Allocated, Answered, Freed, Tell, Ungated, Waits
from reconciler.reconcile.fencing import Fence
from reconciler.reconcile.intake import Intake
from reconciler.reconcile.koordinator.turns import Turns
from reconciler.reconcile.ownership import Ownership, classes_of
from reconciler.reconcile.pending import Pending
from reconciler.reconcile.settling import Settler
from reconciler.reconcile.steps import Blocked, Decide, Free, Nothing, Planner, Step, Ungate, is_made_for
from reconciler.reconcile.units import Kind, Unit, claims_of
from reconciler.reconcile.waiting import Wants

log = structlog.get_logger()


class Reconciler:
    """Takes units from the queue, any number at a time. Only writes wait; deciding does not."""

    def __init__(
        self,
        intake: Intake,
        writer: Writer,
        ours: Ownership,
        *,
        steps: int,
        clock: Callable[[], float],
        tell: Tell,
        names: Callable[[], str],
        answered: Answered,
        fence: Fence,
        journal: Callable[[str, Unit, Decide, Granted | Refusal], None] | None = None,
        around: Callable[[Unit], AbstractContextManager[None]] = lambda _: nullcontext(),
    ) -> None:
        """`steps` bounds one search; `clock` counts seconds; `tell` hears every decision, for which
        `names` gives names; `answered` hears every answer of a search, `journal` the question as well;
        every turn is taken within what `around` gives.
        """
        self._intake = intake
        self._store = intake.store
        self._queue = intake.queue
        self._writer = writer
        self._fence = fence
        self._planner = Planner(intake.store, intake.roster, intake.nodes, ours, intake.yielded)
        self._settler = Settler(intake, writer, tell)
        self._decider = Decider(ours, steps=steps)
        self._aside = Aside(intake, self._planner, self._decider)
        self._building = asyncio.Lock()
        self._clock = clock
        self._tell = tell
        self._names = names
        self._answered = answered
        self._journal = journal
        self._around = around
        self.pending = Pending()
        self.devices: Turns | None = None
        """Serves pods with devices that are not claimed, where there are such"""
        self._not_before: dict[Unit, float] = {}
        self._stopping = False
        self.failures = 0
        """Turns that ended in an error nobody expected"""
        self.turns = 0
        """Turns that ended, however they did"""

    def stop(self) -> None:
        """Begin no more turns; those under way go on to their end."""
        self._stopping = True
        self._queue.close()
        self._aside.close()
        self._fence.up.set()  # who still waits for it goes home

    async def work(self) -> None:
        """Take turns until stopped. Nothing is decided unless every kind was listed and the fence is up.

        Any number of workers may run. Cancelled during a write: its plan stays assumed.
        """
        await self._aside.warm_up()
        while not self._stopping:
            await self._fence.up.wait()
            try:
                async with self._queue.take() as unit:
                    if not self._fence.up.is_set():  # it came down while this waited for something to do
                        self._intake.put(unit)
                        continue
                    async with self._building:  # who was first in the queue is first here
                        await build_ahead(self._store)
                    if not self._stopping:
                        await self.serve(unit)
                        self.turns += 1
                await asyncio.sleep(0)  # a turn may end without waiting for anything: others first
            except Closed:
                return

    async def serve(self, unit: Unit) -> None:
        """One turn, whatever happens in it. Only a broken promise of our own passes through."""
        if (left := self._not_before.pop(unit, 0.0) - self._clock()) > 0:
            self._hold_off(unit, left)
            return
        claims = self._claims(unit)
        try:
            with self._around(unit):
                await self.turn(unit)
        except Inconsistent:
            raise
        except Gone as exc:  # the watch tells the rest
            log.debug("nothing left to do", unit=str(unit), error=str(exc))
        except Conflict as exc:  # it was read again: the sooner it is decided afresh, the better
            delay = self._again(unit, exc.after)
            self._repeats(unit, "conflict", exc, delay)
        except Paused:
            self._intake.pause.hold(unit)
        except Retry as exc:
            delay = self._hold_off(unit, self._again(unit, exc.after))
            self._repeats(unit, "retry", exc, delay)
        except Rejected as exc:
            delay = self._hold_off(unit, self._again(unit, 0.0))
            log.warning("write refused", unit=str(unit), error=str(exc), pause=round(delay, 3))
        except Exception:
            # One odd claim must not stop the others.
            self.failures += 1
            delay = self._hold_off(unit, self._again(unit, 0.0))
            log.exception("turn failed", unit=str(unit), pause=round(delay, 3))

        self._hand_back(unit, claims)

    def _hand_back(self, unit: Unit, claims: Iterable[ObjectKey]) -> None:
        """Give claims a turn of their own whose pod went during its turn.

        They had one when it went, and left the rest to the write that was under way.
        """
        for key in claims:
            if unit not in self._intake.roster.units(key):
                self._intake.put(Unit(Kind.CLAIM, key))

    @staticmethod
    def _repeats(unit: Unit, cause: str, exc: Retry, delay: float) -> None:
        log.info("turn to be repeated", unit=str(unit), cause=cause, error=str(exc), pause=round(delay, 3))

    async def turn(self, unit: Unit) -> None:
        """Bring a unit from what it asks to what it holds. Safe to call at any time, twice."""
        if unit.kind is Kind.POD and self.devices is not None and await self.devices.serves(unit):
            return
        await self._resolve(unit)
        match self._planner.next(unit):
            case Nothing():
                self._done(unit)
            case Blocked() as blocked:
                self._wait_no_more(unit)
                self._wait(unit, Waits(blocked.claims, _pod(unit), blocked.reason, blocked.message))
            case Decide() as asked:
                await self._decide(unit, asked)
            case Free() as found:
                self._wait_no_more(unit)
                await self._free(unit, found)
                self._done(unit)
            case Ungate(pod=pod):
                self._wait_no_more(unit)
                await self._writer.ungate(pod)
                self._tell(Ungated(pod.key))
                self._done(unit)

    def next(self, unit: Unit) -> Step:
        """What a unit needs as things are now, for whoever looks on."""
        return self._planner.next(unit)

    async def _decide(self, unit: Unit, asked: Decide) -> None:
        """No await between an answer and its assumption: the next decision must see this one."""
        began = self._clock()
        world = self._store.snapshot()
        if self._is_known(unit, asked, world):
            self._intake.put(unit, after=self._queue.failed(unit))
            return
        serial = self._intake.nodes.room.serial
        del world  # while somebody holds it, every change of a hold copies the columns
        answer = await self._aside.answer(unit, asked)  # waits for nothing that is not long
        if answer is None:
            return
        if serial != self._intake.nodes.room.serial and not self._has_room(unit, answer):
            self._intake.put(unit)  # while it waited, other pods took the room that it was asked for
            return
        name = self._names()
        self._answered(answer.reason if isinstance(answer, Refusal) else "", self._clock() - began, name)
        if self._journal is not None:
            self._journal(name, unit, asked, answer)
        if isinstance(answer, Refusal):
            await self._refuse(unit, asked, answer, name)
            return
        self._intake.pause.check()
        for plan in answer.plans:
            self._intake.assume(plan)
        self._wait_no_more(unit)

        def written(plan: Plan) -> None:
            devices = tuple(result.id for result in plan.allocation.devices.results)
            seconds = self._clock() - began
            self._tell(
                Allocated(plan.claim, _pod(unit), devices, plan.node, seconds, answer.steps, decision_id=name)
            )

        await self._settler.settle(list(zip(answer.plans, asked.claims, strict=True)), written)
        self._done(unit)

    def _has_room(self, unit: Unit, answer: Granted | Refusal) -> bool:
        """Whether a pod can still go to the node of an answer. A refusal is woken by changes of its own."""
        if isinstance(answer, Refusal):
            return True
        now = self._planner.next(unit)
        return isinstance(now, Decide) and (now.nodes is None or answer.node in now.nodes)

    async def _free(self, unit: Unit, found: Free) -> None:
        """Let a claim go. Where that is for the sake of another, only if the server says so too."""
        if found.rival is not None:
            rival = await self._writer.read_claim(found.rival)
            if rival is not None:
                self._intake.observe(rival)
            if rival is None or self._planner.next(unit) != found:
                return
        if found.claim.deleting:
            await self._writer.release(found.claim)
        elif found.rival is not None:
            with self._intake.audit.ended_by(found.claim.key):
                let_go = await self._writer.withdraw(found.claim)
            self._intake.observe(let_go)
        else:
            self._intake.observe(await self._writer.withdraw(found.claim))
        self._tell(Freed(found.claim.key, found.why))

    def _is_known(self, unit: Unit, asked: Decide, world: Snapshot) -> bool:
        """Whether the unit waits for the very reason for which it would be refused now."""
        return self._intake.waiting.has(unit) and (
            self._decider.refuses(asked, world) == self.pending.reason(unit)
        )

    async def _refuse(self, unit: Unit, asked: Decide, refusal: Refusal, name: str) -> None:
        """Let the unit wait, for a change or for its back-off; or make room for a whole decision."""
        if refusal.room and (stuck := self._withdrawable(unit, asked)):
            for claim in stuck:
                self._intake.observe(await self._writer.withdraw(claim))
                why = "the other claims of its pod do not fit where it is"
                self._tell(Freed(claim.key, why, decision_id=name))
            return
        classes = frozenset(name for claim in asked.claims for _, name in classes_of(claim))
        self._intake.waiting.add(unit, Wants(classes, refusal.room, asked.crowded))
        keys = tuple(claim.key for claim in asked.claims)
        nodes, steps, counts = refusal.nodes, refusal.steps, refusal.counts
        reason = refusal.reason
        message = "; ".join(filter(None, [refusal.message, self._planner.left_out(asked)]))
        self._wait(unit, Waits(keys, _pod(unit), reason, message, nodes, steps, counts, decision_id=name))
        self._intake.put(unit, after=self._queue.failed(unit))

    def _withdrawable(self, unit: Unit, asked: Decide) -> list[ResourceClaim]:
        """Claims that hold the pod to a node where the rest of it does not fit, and are its alone.

        Half of a joint decision may be all that was written before a crash.
        """
        pod = self._store.pods.get(unit.key) if unit.kind is Kind.POD else None
        if pod is None or not pod.gated:
            return []
        return [c for c in asked.held if is_made_for(c, pod) and not c.status.reserved_for]

    async def _resolve(self, unit: Unit) -> None:
        """Settle writes of earlier turns that got no answer."""
        for key in self._claims(unit):
            claim = self._store.claims.get(key)
            if claim is not None:
                await self._settler.resolve(claim)

    def _claims(self, unit: Unit) -> Iterable[ObjectKey]:
        if unit.kind is Kind.CLAIM:
            return (unit.key,)
        pod: Pod | None = self._store.pods.get(unit.key)
        return claims_of(pod) if pod is not None else ()

    def _again(self, unit: Unit, after: float) -> float:
        """Another turn later, also for those that share a claim with the unit and found it taken care of."""
        delay = max(self._queue.failed(unit), after)
        sharing = {other for key in self._claims(unit) for other in self._intake.roster.units(key)}
        for other in (unit, *sorted(sharing - {unit})):
            self._intake.put(other, after=delay)
        return delay

    def _hold_off(self, unit: Unit, delay: float) -> float:
        """No turn before the delay is over, whatever wakes the unit: it may be the echo of what failed."""
        self._not_before[unit] = self._clock() + delay
        self._intake.put(unit, after=delay)
        return delay

    def _wait(self, unit: Unit, waits: Waits) -> None:
        if self.pending.note(unit, waits.reason, waits.claims):
            self._tell(waits)

    def _wait_no_more(self, unit: Unit) -> None:
        """How often it was told no says nothing about how its write will fare."""
        if self._intake.waiting.has(unit):
            self._intake.waiting.drop(unit)
            self._queue.forget(unit)

    def _done(self, unit: Unit) -> None:
        self._intake.waiting.drop(unit)
        self._queue.forget(unit)
        self.pending.drop(unit)


def _pod(unit: Unit) -> ObjectKey | None:
    return unit.key if unit.kind is Kind.POD else None
