"""Reconciles gangs: places enough of their gated pods together, writes that, then removes the gates."""

import dataclasses
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from reconciler.allocation.gangs.kinds import GangGranted, GangUnsatisfied, Seat
from reconciler.api.objects import gangs
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod, claims_of
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.plan import Plan, Reason
from reconciler.cluster.pod_writer import PodWriter
from reconciler.cluster.writer import Writer
from reconciler.control.decisions.allocating import Allocated, Freed, Ungated, Waits
from reconciler.control.decisions.declaration import Report
from reconciler.control.decisions.every import GangGivenBack, GangPlaced
from reconciler.control.gangs.planner import GangPlanner, GiveBack, Place, Seats, Solve, UngateAll
from reconciler.control.gangs.search import GangSearch
from reconciler.control.handler import (
    Act,
    Answer,
    Ask,
    Blocked,
    Decided,
    Given,
    Handler,
    Idle,
    Needs,
    Refused,
    Stuck,
)
from reconciler.control.inputs import Outcome
from reconciler.control.intake import Intake
from reconciler.control.ownership import classes_of
from reconciler.control.settler import NOT_BOUND, Settler, awaits_binding, patch_pod
from reconciler.control.units import Kind, Unit
from reconciler.control.waiting import AWAITS_OTHERS, Wants
from reconciler.errors import Gone, Undecided
from reconciler.state.pods.placed import allocation_of, pinned_to
from reconciler.state.pods.terms import follows_others


class GangWriter(Struct, eq=False):
    """Writes to the claims and pods of gangs. Each request names the version that it was decided from."""

    _intake: Intake
    _claims: Writer
    _pods: PodWriter
    _report: Report
    _unanswered: dict[ObjectKey, gangs.GangKey] = {}
    """Pods whose patch has no answer: it may still arrive"""

    def is_unanswered(self, pod: ObjectKey) -> bool:
        """Whether a patch of a pod may still arrive."""
        return pod in self._unanswered

    async def ungate(self, step: UngateAll) -> None:
        """Remove the gate of every pod with a seat; pin those that their allocations do not pin, or all.

        Interrupted: the next turn goes on with the others.
        """
        for place in step.places:
            try:
                await self._patch(step.gang, place.pod, self._release(place, pin=step.pinning))
            except Gone:  # the others run without it; a pod that replaces it is decided alone
                continue
            self._report(Ungated(place.pod.key, claims_of(place.pod)))

    async def record(self, gang: gangs.GangKey, mark: gangs.SeatMark, pod: Pod) -> None:
        """Record the node of a gated pod."""
        await self._patch(gang, pod, self._pods.merge(pod, gangs.record(mark)))

    async def give_back(self, seats: Seats, why: str) -> None:
        """Withdraw all claims, and the recorded nodes of pods. Interrupted: the next turn goes on."""
        for pod in seats.pods:
            try:
                await self._patch(seats.gang, pod, self._pods.merge(pod, gangs.take_back()))
            except Gone:
                continue
        for claim in seats.claims:
            try:
                self._intake.observe(await self._claims.withdraw(claim))
            except Gone:
                continue
            self._report(Freed(claim.key, "its gang gives it back"))
        self._report(GangGivenBack(seats.gang, tuple(claim.key for claim in seats.claims), why))

    async def resolve(self, gang: gangs.GangKey) -> None:
        """Find out whether unanswered patches of a gang's pods were applied, and let none arrive later."""
        for key in [pod for pod, of in self._unanswered.items() if of == gang]:
            found = await self._pods.read(key)
            if found is not None and found.gated:
                # Another version of the pod: a patch that still arrives gets a conflict.
                found = await self._pods.merge(
                    found, gangs.record(gangs.SeatMark(gangs.gang_of(found) or gang, 0, ""))
                )
                found = await self._pods.merge(found, gangs.take_back())
            if found is not None:
                self._intake.observe_pod(found)
            self._intake.forget_pod(key)
            del self._unanswered[key]

    def _release(self, place: Place, *, pin: bool) -> Awaitable[Pod]:
        """Remove a gate; pin the pod if its allocations do not, or if told."""
        if place.pinned and not pin:
            return self._pods.merge(place.pod, gangs.release(place.pod))
        return self._pods.patch(place.pod, gangs.release_on(place.pod, place.node))

    async def _patch(self, gang: gangs.GangKey, pod: Pod, patch: Awaitable[Pod]) -> None:
        """Raises as `patch_pod`."""
        try:
            await patch_pod(pod, patch, self._intake, self._pods)
        except Undecided:
            self._unanswered[pod.key] = gang
            raise


class GangHandler(Struct, Handler, eq=False):
    """Serves gangs, and the gated pods of gangs, which need nothing on their own."""

    _intake: Intake
    _planner: GangPlanner
    _search: GangSearch
    _settler: Settler
    _writer: GangWriter
    clock: Callable[[], float]
    """That of the loop"""
    report: Report
    """Gets every write"""

    async def resolve(self, unit: Unit) -> None:
        if unit.kind is not Kind.GANG:
            return
        for key in self._intake.units.claims(unit):
            claim = self._intake.store.claims.get(key)
            if claim is not None:
                await self._settler.resolve(claim)
        await self._writer.resolve(unit.gang)

    def next(self, unit: Unit) -> Needs | None:
        if not self._planner.serves(unit):
            return None
        if unit.kind is not Kind.GANG:
            return Idle()  # its gang does all that it needs
        match self._planner.next(unit.gang):
            case Blocked() as blocked:
                return Stuck(self._waits(unit, blocked.reason, blocked.message), self._counted(unit))
            case UngateAll() as step:
                return self._release(unit, step)
            case GiveBack() as step:
                return Act(partial(self._writer.give_back, step.seats, step.why))
            case Solve() as solve:
                return Ask(lambda _: [self._decide(unit, solve)])
        return Idle()

    def _release(self, unit: Unit, step: UngateAll) -> Needs:
        """Remove the gates of the members that kube-scheduler can bind now.

        kube-scheduler and its plugins bind the pods of a PodGroup together, so none of these waits (GANG-27).
        """
        held = (self._intake.store.claims.get(key) for one in step.places for key in claims_of(one.pod))
        if self._intake.lag.awaits(unit, [claim for claim in held if claim is not None], self.clock()):
            return Idle()
        if step.gang.source is gangs.GangSource.ANNOTATION:
            ready = tuple(one for one in step.places if not awaits_binding(one.pod, self._intake))
            if not ready:
                why = "its places are written; pods that affinity or spread counts have to be bound first"
                return Stuck(self._waits(unit, NOT_BOUND, why), self._counted(unit), AWAITS_OTHERS)
            step = replace(step, places=ready)
        for place in step.places:
            self._intake.release_pod(place.pod.key)
        return Act(partial(self._writer.ungate, step))

    def close(self) -> None:
        self._search.close()

    def _decide(self, unit: Unit, solve: Solve) -> Answer:
        answer = self._search.answer(solve)
        if answer is None:
            return None
        if isinstance(answer, GangUnsatisfied):
            return self._refused(unit, solve, answer)
        # Members that were left out may hold something elsewhere than where the others go. A claim that all
        # share would complete them there, so it is given back, and all is decided afresh.
        if kept := self._planner.kept(unit.gang, answer.left_out):
            return Act(partial(self._writer.give_back, kept, "the other pods of the gang fit elsewhere"))
        granted = self._marked(solve, answer)
        nodes = ", ".join(seat.node for seat in granted.seats)
        plans = [plan for seat in granted.seats for plan in seat.plans]
        # As they were decided: a claim that is deleted before its write began is `Gone`.
        pairs = [(plan, self._intake.store.claims[plan.claim]) for plan in plans]
        return Given(
            partial(Outcome.of, nodes, plans, granted.policy),
            partial(self._assume, granted),
            partial(self._write, solve, granted, pairs),
        )

    def _refused(self, unit: Unit, solve: Solve, why: GangUnsatisfied) -> Refused:
        members, returned = solve.question.members, solve.returned
        claims = [claim for member in members for claim in member.claims]
        classes = frozenset(name for claim in claims for _, name in classes_of(claim))
        minds_pods = any(follows_others(member.pod) for member in members)
        wants = Wants(classes, room=not _is_error(why.reason), crowded=True, awaits_pods=minds_pods)

        def waits(name: str) -> Waits:
            told = self._waits(unit, why.reason, why.message)
            return dataclasses.replace(told, steps=why.steps, decision_id=name)

        async def give_back(_name: str) -> None:
            """The rest does not fit beside what was written. All of it is decided afresh."""
            await self._writer.give_back(returned, why.message)

        return Refused(
            lambda: Outcome(reason=why.reason),
            why.reason,
            wants,
            self._counted(unit),
            waits,
            give_back if returned else None,
        )

    def _assume(self, granted: GangGranted) -> None:
        for seat in granted.seats:
            for plan in seat.plans:
                self._settler.assume(plan)
        for seat in self._unpinned(granted):
            self._intake.assume_pod(seat.pod, seat.node)

    async def _write(
        self,
        solve: Solve,
        granted: GangGranted,
        pairs: Sequence[tuple[Plan, ResourceClaim]],
        decided: Decided,
    ) -> None:
        """All claims, then the nodes of pods that no allocation pins. The gates are another turn's work."""
        unpinned = self._unpinned(granted)
        pod_of = {plan.claim: seat.pod for seat in granted.seats for plan in seat.plans}

        def written(plan: Plan) -> None:
            devices = tuple(result.id for result in plan.allocation.devices.results)
            seconds = self.clock() - decided.began
            self.report(
                Allocated(
                    plan.claim, pod_of[plan.claim], devices, plan.node, seconds, granted.steps,
                    policy=granted.policy or None, decision_id=decided.name,
                )
            )  # fmt: skip

        left = [seat.pod for seat in unpinned]
        try:
            await self._settler.settle(pairs, written)
            for seat in unpinned:
                pod = self._intake.store.pods.get(seat.pod)
                if pod is not None:
                    await self._writer.record(solve.question.gang, self._mark(solve, seat), pod)
                left.remove(seat.pod)
        except Exception:
            for key in left:
                if not self._writer.is_unanswered(key):  # else it may be written: `resolve` finds out
                    self._intake.forget_pod(key)
            raise
        self.report(
            GangPlaced(
                solve.question.gang,
                solve.rules.least_pods,
                tuple(seat.pod for seat in granted.seats),
                tuple(seat.node for seat in granted.seats),
                granted.left_out,
                tuple((tier.key, value) for tier, value in granted.domain),
                self.clock() - decided.began,
                granted.steps,
                granted.policy or None,
                decision_id=decided.name,
            )
        )

    def _marked(self, solve: Solve, granted: GangGranted) -> GangGranted:
        """With the plans as they are written: only what equals an assumed plan ends that."""
        seats = []
        for seat in granted.seats:
            mark = gangs.SEAT, str(self._mark(solve, seat))
            plans = (dataclasses.replace(one, annotations=(*one.annotations, mark)) for one in seat.plans)
            seats.append(replace(seat, plans=tuple(plans)))
        return dataclasses.replace(granted, seats=tuple(seats))

    def _mark(self, solve: Solve, seat: Seat) -> gangs.SeatMark:
        """It has the group that the pod itself names."""
        pod = self._intake.store.pods.get(seat.pod)
        named = gangs.gang_of(pod) if pod is not None else None
        return gangs.SeatMark(named or solve.question.gang, solve.rules.least_pods, seat.node)

    def _unpinned(self, granted: GangGranted) -> list[Seat]:
        """The seats whose allocations allow other nodes, too. Plans must be assumed."""
        return [seat for seat in granted.seats if not self._is_pinned(seat)]

    def _is_pinned(self, seat: Seat) -> bool:
        pod = self._intake.store.pods.get(seat.pod)
        found = (allocation_of(self._intake.store, key) for key in claims_of(pod)) if pod is not None else ()
        return any(it is not None and pinned_to(it.node_selector) for it in found)

    def _waits(self, unit: Unit, reason: str, message: str) -> Waits:
        pods = tuple(sorted(pod.key for pod in self._intake.units.gated(unit.gang)))
        return Waits(self._intake.units.claims(unit), None, reason, message, gang=unit.gang, pods=pods)

    def _counted(self, unit: Unit) -> tuple[ObjectKey, ...]:
        """The claims that count as pending, or the pods if they have none."""
        waiting = [
            key
            for key in self._intake.units.claims(unit)
            if (claim := self._intake.store.claims.get(key)) is None or claim.allocation is None
        ]
        return tuple(waiting) or tuple(sorted(pod.key for pod in self._intake.units.gated(unit.gang)))


def _is_error(reason: str) -> bool:
    """Whether no freed device can help."""
    return reason in frozenset(Reason) and Reason(reason).is_error
