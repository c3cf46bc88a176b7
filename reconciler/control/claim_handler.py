"""Reconciles claims, and pods with claims: decides and writes their allocations."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import partial

from msgspec import Struct

from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod, claims_of
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.plan import Granted, Plan
from reconciler.cluster.writer import Writer
from reconciler.control import handler
from reconciler.control.background_search import BackgroundSearch
from reconciler.control.decider import Decider, Refusal
from reconciler.control.decisions.allocating import Allocated, Freed, Ungated, Waits
from reconciler.control.decisions.declaration import Report
from reconciler.control.inputs import Asked, Outcome
from reconciler.control.intake import Intake
from reconciler.control.ownership import classes_of, is_made_for
from reconciler.control.planner import Planner
from reconciler.control.settler import HandOver, Settler, release_step
from reconciler.control.units import Kind, Unit
from reconciler.control.waiting import AWAITS_OTHERS, Pending, Wants
from reconciler.state.nominations import HeldPlace

FEWEST = 5
"""Units for which one pass takes less than decisions one by one"""


class ClaimHandler(Struct, handler.Handler, eq=False):
    """Allocates claims, frees them, and removes the scheduling gate from pods. Serves every unit."""

    _intake: Intake
    _planner: Planner
    _decider: Decider
    _search: BackgroundSearch
    _writer: Writer
    _settler: Settler
    _hand_over: HandOver
    _pending: Pending
    clock: Callable[[], float]
    """That of the loop"""
    now: Callable[[], datetime]
    """The time of day with its zone"""
    report: Report
    """Gets every write"""

    async def warm_up(self) -> None:
        await self._search.warm_up()

    def close(self) -> None:
        self._search.close()

    async def resolve(self, unit: Unit) -> None:
        if unit.kind is Kind.POD:
            await self._hand_over.resolve(unit.key)
        for key in self._intake.units.claims(unit):
            claim = self._intake.store.claims.get(key)
            if claim is not None:
                await self._settler.resolve(claim)

    def next(self, unit: Unit) -> handler.Needs:
        match self._planner.next(unit):
            case handler.Idle() as idle:
                return idle
            case handler.Blocked(claims=claims, reason=reason, message=message):
                return handler.Stuck(Waits(claims, _pod(unit), reason, message), claims)
            case handler.Free() as found:
                return handler.Act(partial(self._free, unit, found))
            case handler.Ungate(pod=pod, place=place):
                return self._release(unit, pod, place)
            case handler.Decide() as decide:
                return handler.Ask(partial(self.decide, unit, decide))

    def _release(self, unit: Unit, pod: Pod, place: HeldPlace | None) -> handler.Needs:
        """Remove the gate of a pod whose claims are allocated, if kube-scheduler can bind it now. `place` is
        where it is to make one more.
        """
        if self._intake.early.supposes(pod.key):
            # kube-scheduler goes by the pod's own status, whose event requeues the unit.
            return handler.Idle()
        held = [claim for key in claims_of(pod) if (claim := self._intake.store.claims.get(key)) is not None]
        if self._intake.lag.awaits(unit, held, self.clock()):
            return handler.Idle()
        if place is not None and (seconds := self._intake.special.wait(place)) > 0:
            self._intake.put(unit, after=seconds)
            return handler.Idle()
        match release_step(pod, self._intake):
            case handler.Free() as found:
                return handler.Act(partial(self._free, unit, found))
            case handler.Blocked(claims=claims, reason=reason, message=message):
                return handler.Stuck(Waits(claims, pod.key, reason, message), (pod.key,), AWAITS_OTHERS)
        self._intake.release_pod(pod.key)
        return handler.Act(partial(self._ungate, pod, place))

    def decide(self, unit: Unit, asked: handler.Decide, others: Iterable[Unit]) -> Sequence[handler.Answer]:
        # Keep no snapshot here: while one is referenced, every allocation copies the columns.
        if self._is_refused_again(unit, asked):
            return [handler.Later(self._intake.queue.failed(unit))]
        if self._search.is_free_for(unit) and (batch := self._decide_batch(unit, asked, others)):
            return batch
        answer = self._search.answer(unit, asked)
        if isinstance(answer, Refusal):
            return [self._refused(unit, asked, answer)]
        return [None if answer is None else self._given(unit, asked, answer)]

    def _decide_batch(self, unit: Unit, asked: handler.Decide, others: Iterable[Unit]) -> list[handler.Given]:
        """Devices for a unit and those after it that ask for the same; empty if each is decided by itself."""
        snapshot = self._intake.store.snapshot()
        if asked.held or asked.special or self._intake.store.nominations:
            return []
        if not self._decider.is_first_fit(asked, snapshot):
            return []
        questions = {unit: asked}
        for other in others:
            found = self._planner.like(asked, other)
            if found is None:
                break
            questions[other] = found
        if len(questions) < FEWEST:
            return []
        room = None
        if asked.pod is not None and (room := self._planner.room_for_copies(asked.pod)) is None:
            return []
        self._intake.note(Asked(tuple(questions)))
        answers = self._decider.answer_batch(list(questions.values()), snapshot, room)
        return [self._given(*one, granted) for one, granted in zip(questions.items(), answers, strict=False)]

    def _given(self, unit: Unit, asked: handler.Decide, granted: Granted) -> handler.Given:
        return handler.Given(
            partial(Outcome.of, granted.node, granted.plans, granted.policy),
            partial(self.assume, asked, granted),
            partial(self.write, unit, asked, granted),
            asked,
        )

    def _refused(self, unit: Unit, asked: handler.Decide, why: Refusal) -> handler.Refused:
        # The changes that wake it do not depend on other pods' room.
        classes = frozenset(name for claim in asked.claims for _, name in classes_of(claim))
        wants = Wants(classes, why.room, asked.crowded, asked.awaits_pods)
        keys = tuple(claim.key for claim in asked.claims)
        stuck = self._withdrawable(unit, asked) if why.room else []
        return handler.Refused(
            partial(Outcome, keys, why.reason),
            why.reason,
            wants,
            keys,
            partial(self._waits, unit, asked, why),
            partial(self._withdraw, stuck) if stuck else None,
            asked,
        )

    def _is_refused_again(self, unit: Unit, decide: handler.Decide) -> bool:
        """Whether a unit waits, and would be refused for the same reason as before, as is known already."""
        if not self._intake.waiting.has(unit):
            return False
        reason = self._decider.refuses(decide, self._intake.store.snapshot_for(decide.own))
        return reason is not None and reason == self._pending.reason(unit)

    def assume(self, asked: handler.Decide, granted: Granted) -> None:
        plans = granted.plans
        for plan, claim in zip(plans, asked.claims, strict=True):
            if not claim.is_special:
                self._settler.assume(plan)
            elif len(plans) == 1 and asked.pod is not None:  # else once the others are written
                self._intake.special.nominate(asked.pod, plan, claim, self._intake.store.snapshot())

    async def write(
        self, unit: Unit, asked: handler.Decide, granted: Granted, decided: handler.Decided
    ) -> None:
        claims = {claim.metadata.uid: claim for claim in asked.claims}

        def written(plan: Plan) -> None:
            devices = plan.plain or tuple(result.id for result in plan.allocation.devices.results)
            seconds = self.clock() - decided.began
            pod, name = _pod(unit), decided.name
            steps, pending = granted.steps, self._age(claims[plan.uid])
            policy = granted.policy or None
            self.report(
                Allocated(
                    plan.claim, pod, devices, plan.node, seconds, steps, pending, policy, decision_id=name
                )
            )

        plans = zip(granted.plans, asked.claims, strict=True)
        await self._settler.settle([pair for pair in plans if not pair[1].is_special], written)

    def _age(self, claim: ResourceClaim) -> float | None:
        """Seconds since a claim was created. The clock of the server may be ahead."""
        created = claim.metadata.created
        return None if created is None else max((self.now() - created).total_seconds(), 0.0)

    async def _withdraw(self, stuck: Iterable[ResourceClaim], name: str) -> None:
        for claim in stuck:
            self._intake.observe(await self._writer.withdraw(claim))
            why = "the other claims of its pod do not fit on its node"
            self.report(Freed(claim.key, why, decision_id=name))

    def _withdrawable(self, unit: Unit, asked: handler.Decide) -> list[ResourceClaim]:
        """Claims made for this pod alone that bind it to a node where its other claims do not fit.

        A crash may leave only a part of a joint decision written.
        """
        pod = self._intake.store.pods.get(unit.key) if unit.kind is Kind.POD else None
        if pod is None or not pod.gated:
            return []
        return [c for c in asked.held if is_made_for(c, pod) and not c.status.reserved_for]

    def _waits(self, unit: Unit, asked: handler.Decide, why: Refusal, name: str) -> Waits:
        keys = tuple(claim.key for claim in asked.claims)
        message = "; ".join(filter(None, [why.message, self._planner.left_out(asked)]))
        return Waits(
            keys, _pod(unit), why.reason, message, why.nodes, why.steps, why.counts, decision_id=name
        )

    async def _free(self, unit: Unit, found: handler.Free) -> None:
        """Free a claim. If a rival holds its device, read the rival from the server first to be sure."""
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
                freed = await self._writer.withdraw(found.claim)
            self._intake.observe(freed)
        else:
            self._intake.observe(await self._writer.withdraw(found.claim))
        self.report(Freed(found.claim.key, found.why))

    async def _ungate(self, pod: Pod, place: HeldPlace | None) -> None:
        # Not left to the watch: events of the claim may come first, and be taken for those of a gated pod.
        if place is None:
            self._intake.observe_pod(await self._writer.ungate(pod))
        else:
            await self._hand_over.release(pod, place)
        self.report(Ungated(pod.key, claims_of(pod)))


def _pod(unit: Unit) -> ObjectKey | None:
    return unit.key if unit.kind is Kind.POD else None
