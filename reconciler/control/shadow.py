"""Shadow mode: compares our decisions with the allocations of the cluster's own scheduler. Writes nothing.

Each watched allocation is compared with our decision from the state just before it. kube-scheduler decides
before it writes, so claims that it decides at the same time may arrive in another order.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace

import structlog
from msgspec import Struct, field

from reconciler.aio.queue import Closed
from reconciler.aio.tasks import Stopped, unless
from reconciler.allocation.placement.placing import refusal_reason
from reconciler.allocation.policies.selection import Policies
from reconciler.api.objects.changes import Changed, Notice, Replaced
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod, claims_of, is_live
from reconciler.api.objects.meta import ApiObject, DeviceID, ObjectKey
from reconciler.api.objects.plan import Granted, Plan
from reconciler.cluster.watch import Sink
from reconciler.control.decider import Decider, Refusal
from reconciler.control.decisions.allocating import Compared, Outcome
from reconciler.control.decisions.declaration import Report
from reconciler.control.handler import Decide
from reconciler.control.intake import Intake
from reconciler.control.ownership import classes_of
from reconciler.control.units import Kind, Unit
from reconciler.control.waiting import Wants
from reconciler.errors import Rejected
from reconciler.state.pods.placed import pinned_to

log = structlog.get_logger()

Answer = Granted | Refusal


class Joint(Struct, frozen=True):
    """Our decision for all claims of a pod, while not all of them are allocated."""

    uid: str
    """The uid of the pod"""
    claims: frozenset[ObjectKey]
    question: Decide
    answer: Answer
    at: float


class Shadow(Struct, eq=False):
    """Takes the place of the reconciler: takes in changes, and takes units from the queue."""

    _intake: Intake
    _decider: Decider
    _sink: Sink
    """Applies changes"""
    _patience: float
    """Seconds after which pods that are still pending are reported"""
    _policies: Callable[[], Policies]
    """Those in use"""
    clock: Callable[[], float]
    report: Report
    _stopped: asyncio.Event = field(default_factory=asyncio.Event)
    _joint: dict[ObjectKey, Joint] = {}
    _since: dict[Unit, float] = {}
    _reported: set[Unit] = set()
    counts: Counter[Outcome] = field(default_factory=Counter)
    """Comparisons so far, by outcome"""

    def take(self, change: Notice) -> None:
        """The sink of every watch: compare, then apply the change."""
        if self._intake.listed.is_set():
            match change:
                case Changed(object=ResourceClaim() as claim):
                    self._compare(claim)
                case Replaced(kind="ResourceClaim", objects=objects):
                    # The order of missed changes is unknown: timestamps are the best approximation.
                    for claim in sorted(self._new(objects), key=_stamp):
                        self.take(Changed("ResourceClaim", claim))
        self._sink(change)

    def stop(self) -> None:
        """End workers that wait for the first listing. Closing the queue ends the others."""
        self._stopped.set()

    async def work(self) -> None:
        """Check pending pods, until the queue is closed."""
        with suppress(Stopped):
            await unless(self._stopped, self._intake.listed.wait())
        while True:
            try:
                async with self._intake.queue.take() as unit:
                    self._check_pending(unit)
                await asyncio.sleep(0)
            except Closed:
                return

    def sum_up(self) -> None:
        """Log the number of comparisons of each outcome."""
        counts = {outcome.replace(" ", "_"): self.counts[outcome] for outcome in Outcome}
        log.info("shadow summary", compared=self.counts.total(), **counts)

    # -- allocations by others

    def _new(self, objects: Iterable[ApiObject]) -> list[ResourceClaim]:
        return [thing for thing in objects if isinstance(thing, ResourceClaim) and self._is_new(thing)]

    def _is_new(self, claim: ResourceClaim) -> bool:
        """Whether a claim is newly allocated."""
        known = self._intake.store.claims.get(claim.key)
        same = known is not None and known.metadata.uid == claim.metadata.uid
        return claim.allocation is not None and not (same and known is not None and known.allocation)

    def _compare(self, claim: ResourceClaim) -> None:
        if not self._is_new(claim):
            return
        pod = self._consumer(claim)
        question, answer = self._ours(claim, pod)
        self._count(self._compared(claim, pod, question, answer))

    def _consumer(self, claim: ResourceClaim) -> Pod | None:
        """The pod for which a claim was allocated, if known."""
        names = [entry.name for entry in claim.status.reserved_for if entry.resource == "pods"]
        names += [key.name for key in sorted(self._intake.roster.users(claim.key))]
        for name in names:
            if (pod := self._intake.store.pods.get(ObjectKey(claim.key.namespace, name))) is not None:
                return pod
        return None

    def _ours(self, claim: ResourceClaim, pod: Pod | None) -> tuple[Decide, Answer]:
        """Our answer for all claims of the pod together, decided when the first one is allocated."""
        if pod is None:
            return self._answer(self._question((claim,), None))
        known = self._joint.get(pod.key)
        # Allocations of one scheduling attempt arrive together; a later one was decided anew.
        if (
            known is not None
            and known.uid == pod.metadata.uid
            and claim.key in known.claims
            and self.clock() - known.at < self._patience
        ):
            return known.question, known.answer
        todo = [claim if key == claim.key else self._intake.store.claims.get(key) for key in claims_of(pod)]
        open_ = tuple(c for c in todo if c is not None and (c.key == claim.key or c.allocation is None))
        question, answer = self._answer(self._question(open_ or (claim,), pod))
        keys = frozenset(claim.key for claim in question.claims)
        self._joint[pod.key] = Joint(pod.metadata.uid, keys, question, answer, self.clock())
        return question, answer

    def _question(self, claims: tuple[ResourceClaim, ...], pod: Pod | None) -> Decide | Refusal:
        """The question before the decision: claims not allocated, the pod not bound."""
        claims = tuple(_unallocated(claim) for claim in claims)
        snapshot, policies = self._intake.store.snapshot(), self._policies()
        if pod is None:
            nodes = self._intake.placement.for_claim(snapshot).nodes
            return Decide(claims, nodes, policies=policies)
        keys = {claim.key for claim in claims}
        others = [self._intake.store.claims.get(key) for key in claims_of(pod) if key not in keys]
        held = tuple(other for other in others if other is not None and other.allocation is not None)
        try:
            found = self._intake.placement.before_binding(pod, held, snapshot)
        except Rejected as exc:
            return Refusal(refusal_reason(exc), str(exc), room=False)
        room = self._intake.placement.room(pod, snapshot, policies)
        return Decide(
            claims, found.nodes, held, pod, found.crowded, found.awaits_pods, policies=policies, room=room
        )

    def _answer(self, question: Decide | Refusal) -> tuple[Decide, Answer]:
        if isinstance(question, Refusal):
            return Decide((), None), question
        return question, self._decider.answer(question, self._intake.store.snapshot())

    def _compared(self, claim: ResourceClaim, pod: Pod | None, question: Decide, answer: Answer) -> Compared:
        theirs = _devices(claim)
        allocation = claim.allocation
        their_node = pinned_to(allocation.node_selector) if allocation is not None else ""
        if not their_node and pod is not None:
            their_node = pod.spec.node_name
        base = Compared(
            Outcome.WE_REFUSE,
            (claim.key,),
            pod.key if pod is not None else None,
            their_node=their_node,
            their_devices=theirs,
        )
        if isinstance(answer, Refusal):
            return replace(base, message=f"{answer.reason}: {answer.message}")
        plan = _plan(answer, claim.key)
        ours = tuple(result.id for result in plan.allocation.devices.results)
        base = replace(base, node=answer.node, devices=ours)
        if sorted(ours) == sorted(theirs):
            return replace(base, outcome=Outcome.AGREES)
        if their_node in ("", answer.node):
            return replace(base, outcome=Outcome.OTHER_DEVICES)
        there = self._there(claim, their_node, question, theirs)
        return replace(base, outcome=Outcome.OTHER_NODE, there=there)

    def _there(
        self, claim: ResourceClaim, node: str, question: Decide, theirs: tuple[DeviceID, ...]
    ) -> Outcome:
        """The outcome of our decision on their node."""
        snapshot = self._intake.store.snapshot()
        bound = replace(question, nodes=self._intake.placement.only(node, snapshot))
        answer = self._decider.answer(bound, snapshot)
        if isinstance(answer, Refusal):
            return Outcome.WE_REFUSE
        results = _plan(answer, claim.key).allocation.devices.results
        same = sorted(result.id for result in results) == sorted(theirs)
        return Outcome.AGREES if same else Outcome.OTHER_DEVICES

    # -- claims that others do not allocate

    def _check_pending(self, unit: Unit) -> None:
        """Report a pending pod whose claims we could allocate. A claim without a pod is ignored."""
        pod = self._intake.store.pods.get(unit.key) if unit.kind is Kind.POD else None
        claims = self._waits_for(pod) if pod is not None else ()
        if pod is None or not claims:
            self._forget(unit, pod)
            return
        began = self._since.setdefault(unit, self.clock())
        left = began + self._patience - self.clock()
        if unit in self._reported:
            return
        if left > 0:
            self._intake.put(unit, after=left)
            return
        question, answer = self._answer(self._question(claims, pod))
        if isinstance(answer, Granted):
            self._reported.add(unit)
            devices = tuple(r.id for plan in answer.plans for r in plan.allocation.devices.results)
            keys = tuple(claim.key for claim in claims)
            self._count(Compared(Outcome.THEY_WAIT, keys, pod.key, answer.node, devices))
            return
        classes = frozenset(name for claim in claims for _, name in classes_of(claim))
        self._intake.waiting.add(unit, Wants(classes, answer.room, question.crowded, question.awaits_pods))
        self._intake.put(unit, after=self._intake.queue.failed(unit))

    def _waits_for(self, pod: Pod) -> tuple[ResourceClaim, ...]:
        """The unallocated claims of a pod that the scheduler could schedule."""
        if not is_live(pod) or pod.spec.node_name or pod.spec.scheduling_gates:
            return ()
        if None in pod.claim_names().values():
            return ()
        claims = [self._intake.store.claims.get(key) for key in claims_of(pod)]
        found = [claim for claim in claims if claim is not None and not claim.deleting]
        if len(found) != len(claims):
            return ()
        return tuple(claim for claim in found if claim.allocation is None)

    def _forget(self, unit: Unit, pod: Pod | None) -> None:
        self._since.pop(unit, None)
        self._reported.discard(unit)
        self._intake.waiting.drop(unit)
        self._intake.queue.forget(unit)
        claims = [self._intake.store.claims.get(key) for key in claims_of(pod)] if pod is not None else []
        if all(claim is None or claim.allocation is not None for claim in claims):
            self._joint.pop(unit.key, None)

    def _count(self, compared: Compared) -> None:
        self.counts[compared.outcome] += 1
        self.report(compared)


def _unallocated(claim: ResourceClaim) -> ResourceClaim:
    return claim.replacing("status", allocation=None, reserved_for=())


def _devices(claim: ResourceClaim) -> tuple[DeviceID, ...]:
    results = claim.allocation.devices.results if claim.allocation is not None else ()
    return tuple(result.id for result in results)


def _plan(answer: Granted, claim: ObjectKey) -> Plan:
    return next(plan for plan in answer.plans if plan.claim == claim)


def _stamp(claim: ResourceClaim) -> tuple[str, ObjectKey]:
    return (claim.allocation and claim.allocation.allocation_timestamp) or "", claim.key
