"""What we would have decided, beside what the cluster's own scheduler does. Decides on news, writes nothing.

Each allocation that comes in is compared with ours on the picture just before it. kube-scheduler decides
before it writes, so of claims that it decides at the same time some may come in another order.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

import structlog

from reconciler.aio.queue import Closed
from reconciler.aio.tasks import Stopped, unless
from reconciler.api.objects.changes import Change, Changed, Replaced
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ApiObject, DeviceID, ObjectKey
from reconciler.api.objects.plan import Granted, Plan, Reason
from reconciler.api.objects.pods import claims_of, is_live
from reconciler.cluster.watch import Sink
from reconciler.control.decider import Decider, Refusal
from reconciler.control.decisions.decisions import Compared, Outcome, Report
from reconciler.control.intake import Intake
from reconciler.control.ownership import classes_of
from reconciler.control.planner import Decide
from reconciler.control.queueing.units import Kind, Unit
from reconciler.control.queueing.waiting import Wants
from reconciler.errors import Rejected
from reconciler.state.nodes.charging import pinned_to

log = structlog.get_logger()

Answer = Granted | Refusal


@dataclass(frozen=True, slots=True)
class Joint:
    """What we would have decided for all claims of a pod, of which not all were allocated by now."""

    uid: str
    """Of the pod"""
    claims: frozenset[ObjectKey]
    question: Decide
    answer: Answer
    at: float


class Shadow:
    """Stands where the reconciler would: takes changes in, and units out of the queue."""

    def __init__(
        self,
        intake: Intake,
        decider: Decider,
        *,
        sink: Sink,
        pending_seconds: float,
        clock: Callable[[], float],
        report: Report,
    ) -> None:
        """`sink` takes changes into the picture; pods that wait longer than `pending_seconds` are told of."""
        self._intake = intake
        self._store = intake.store
        self._decider = decider
        self._sink = sink
        self._patience = pending_seconds
        self._clock = clock
        self._report = report
        self._stopped = asyncio.Event()
        self._joint: dict[ObjectKey, Joint] = {}
        self._since: dict[Unit, float] = {}
        self._told: set[Unit] = set()
        self.counts: Counter[Outcome] = Counter()
        """Comparisons so far"""

    def take(self, change: Change) -> None:
        """The sink of every watch: compare, then make the change part of the picture."""
        if self._intake.listed.is_set():
            match change:
                case Changed(object=ResourceClaim() as claim):
                    self._look(claim)
                case Replaced(kind="ResourceClaim", objects=objects):
                    # What was missed came in some order: the timestamps are the best there is.
                    for claim in sorted(self._fresh(objects), key=_stamp):
                        self.take(Changed("ResourceClaim", claim))
        self._sink(change)

    def stop(self) -> None:
        """Who still waits for the first listing goes home; the queue, once it is closed, ends the others."""
        self._stopped.set()

    async def work(self) -> None:
        """Look at pods that wait, until the queue is closed."""
        with suppress(Stopped):
            await unless(self._stopped, self._intake.listed.wait())
        while True:
            try:
                async with self._intake.queue.take() as unit:
                    self._watch(unit)
                await asyncio.sleep(0)
            except Closed:
                return

    def sum_up(self) -> None:
        """Log how often what was the outcome."""
        counts = {outcome.replace(" ", "_"): self.counts[outcome] for outcome in Outcome}
        log.info("shadow summary", compared=self.counts.total(), **counts)

    # -- what others allocated

    def _fresh(self, objects: Iterable[ApiObject]) -> list[ResourceClaim]:
        return [thing for thing in objects if isinstance(thing, ResourceClaim) and self._is_fresh(thing)]

    def _is_fresh(self, claim: ResourceClaim) -> bool:
        """Whether a claim is allocated that was not when it was heard of last."""
        known = self._store.claims.get(claim.key)
        same = known is not None and known.metadata.uid == claim.metadata.uid
        return claim.allocation is not None and not (same and known is not None and known.allocation)

    def _look(self, claim: ResourceClaim) -> None:
        if not self._is_fresh(claim):
            return
        pod = self._consumer(claim)
        question, answer = self._ours(claim, pod)
        self._announce(self._compared(claim, pod, question, answer))

    def _consumer(self, claim: ResourceClaim) -> Pod | None:
        """The pod for which a claim was allocated, as far as it says."""
        names = [entry.name for entry in claim.status.reserved_for if entry.resource == "pods"]
        names += [key.name for key in sorted(self._intake.roster.users(claim.key))]
        for name in names:
            if (pod := self._store.pods.get(ObjectKey(claim.key.namespace, name))) is not None:
                return pod
        return None

    def _ours(self, claim: ResourceClaim, pod: Pod | None) -> tuple[Decide, Answer]:
        """Our answer for all claims of the pod together, given when the first of them comes."""
        if pod is None:
            return self._answer(self._question((claim,), None))
        known = self._joint.get(pod.key)
        # Claims of one attempt come within moments; what comes later was decided afresh.
        if (
            known is not None
            and known.uid == pod.metadata.uid
            and claim.key in known.claims
            and self._clock() - known.at < self._patience
        ):
            return known.question, known.answer
        todo = [claim if key == claim.key else self._store.claims.get(key) for key in claims_of(pod)]
        open_ = tuple(c for c in todo if c is not None and (c.key == claim.key or c.allocation is None))
        question, answer = self._answer(self._question(open_ or (claim,), pod))
        keys = frozenset(claim.key for claim in question.claims)
        self._joint[pod.key] = Joint(pod.metadata.uid, keys, question, answer, self._clock())
        return question, answer

    def _question(self, claims: tuple[ResourceClaim, ...], pod: Pod | None) -> Decide | Refusal:
        """The question as it stood before: nothing allocated, the pod not bound."""
        claims = tuple(_unallocated(claim) for claim in claims)
        snapshot = self._store.snapshot()
        if pod is None:
            return Decide(claims, self._intake.placement.for_claim(snapshot).nodes)
        keys = {claim.key for claim in claims}
        others = [self._store.claims.get(key) for key in claims_of(pod) if key not in keys]
        held = tuple(other for other in others if other is not None and other.allocation is not None)
        try:
            found = self._intake.placement.before_binding(pod, held, snapshot)
        except Rejected as exc:
            return Refusal(Reason.NODE_SELECTOR, str(exc), room=False)
        return Decide(claims, found.nodes, held, pod, found.crowded)

    def _answer(self, question: Decide | Refusal) -> tuple[Decide, Answer]:
        if isinstance(question, Refusal):
            return Decide((), None), question
        return question, self._decider.answer(question, self._store.snapshot())

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
        """How we compare on their node."""
        snapshot = self._store.snapshot()
        bound = replace(question, nodes=self._intake.placement.only(node, snapshot))
        answer = self._decider.answer(bound, snapshot)
        if isinstance(answer, Refusal):
            return Outcome.WE_REFUSE
        results = _plan(answer, claim.key).allocation.devices.results
        same = sorted(result.id for result in results) == sorted(theirs)
        return Outcome.AGREES if same else Outcome.OTHER_DEVICES

    # -- what others do not allocate

    def _watch(self, unit: Unit) -> None:
        """See whether a pod waits for claims that we could meet. A claim without a pod is nobody's."""
        pod = self._store.pods.get(unit.key) if unit.kind is Kind.POD else None
        claims = self._waits_for(pod) if pod is not None else ()
        if pod is None or not claims:
            self._forget(unit, pod)
            return
        began = self._since.setdefault(unit, self._clock())
        left = began + self._patience - self._clock()
        if unit in self._told:
            return
        if left > 0:
            self._intake.put(unit, after=left)
            return
        question, answer = self._answer(self._question(claims, pod))
        if isinstance(answer, Granted):
            self._told.add(unit)
            devices = tuple(r.id for plan in answer.plans for r in plan.allocation.devices.results)
            keys = tuple(claim.key for claim in claims)
            self._announce(Compared(Outcome.THEY_WAIT, keys, pod.key, answer.node, devices))
            return
        classes = frozenset(name for claim in claims for _, name in classes_of(claim))
        self._intake.waiting.add(unit, Wants(classes, answer.room, question.crowded))
        self._intake.put(unit, after=self._intake.queue.failed(unit))

    def _waits_for(self, pod: Pod) -> tuple[ResourceClaim, ...]:
        """The claims that the scheduler has yet to allocate for a pod that it could look at."""
        if not is_live(pod) or pod.spec.node_name or pod.spec.scheduling_gates:
            return ()
        if None in pod.claim_names().values():
            return ()
        claims = [self._store.claims.get(key) for key in claims_of(pod)]
        found = [claim for claim in claims if claim is not None and not claim.deleting]
        if len(found) != len(claims):
            return ()
        return tuple(claim for claim in found if claim.allocation is None)

    def _forget(self, unit: Unit, pod: Pod | None) -> None:
        self._since.pop(unit, None)
        self._told.discard(unit)
        self._intake.waiting.drop(unit)
        self._intake.queue.forget(unit)
        claims = [self._store.claims.get(key) for key in claims_of(pod)] if pod is not None else []
        if all(claim is None or claim.allocation is not None for claim in claims):
            self._joint.pop(unit.key, None)

    def _announce(self, compared: Compared) -> None:
        self.counts[compared.outcome] += 1
        self._report(compared)


def _unallocated(claim: ResourceClaim) -> ResourceClaim:
    status = claim.status.model_copy(update={"allocation": None, "reserved_for": ()})
    return claim.model_copy(update={"status": status})


def _devices(claim: ResourceClaim) -> tuple[DeviceID, ...]:
    results = claim.allocation.devices.results if claim.allocation is not None else ()
    return tuple(result.id for result in results)


def _plan(answer: Granted, claim: ObjectKey) -> Plan:
    return next(plan for plan in answer.plans if plan.claim == claim)


def _stamp(claim: ResourceClaim) -> tuple[str, ObjectKey]:
    return (claim.allocation and claim.allocation.allocation_timestamp) or "", claim.key
