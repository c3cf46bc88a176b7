"""Writes Events about claims and pods: why they are pending, what they got, and devices held in conflict."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence

from reconciler.allocation.reasons.explanation import Explanation
from reconciler.analysis.explain.explain import explain_briefly
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod, claims_of
from reconciler.api.objects.meta import ApiObject, ObjectKey
from reconciler.cluster.kinds import Served
from reconciler.control.decisions.allocating import Allocated, DevicesGiven, HeldTwice, Ungated, Waits
from reconciler.control.decisions.every import Evicted, MoveEvicted, MovesAborted
from reconciler.control.explainer import Explainer, RefusalQueue
from reconciler.control.planner import Step
from reconciler.control.units import Unit
from reconciler.operations.events import notes
from reconciler.operations.events.events import Events, Notice, Regarding
from reconciler.operations.events.inbox import EventInbox, Finding, Outcome
from reconciler.state.store import Store

ALLOCATED, UNGATED = "Allocated", "Ungated"
HELD_TWICE, INCOMPATIBLE = "DeviceHeldTwice", "IncompatibleDevices"
PREEMPTED, MOVED, MOVES_DROPPED = "Preempted", "Moved", "MovesDropped"
"""Of preemption, kube-scheduler has the same reason and action"""
TOGETHER_SECONDS = 0.01
"""What is written within this time after something else is taken from the inbox together: a wake-up for each
allocation takes longer than all else about its Event"""
UNGATING, AUDITING, PREEMPTING, MOVING = "Ungating", "Auditing", "Preempting", "Moving"


class EventRecorder:
    """Explains refusals that last and writes Events about all decisions of its inbox, in the background."""

    def __init__(
        self,
        inbox: EventInbox,
        events: Events,
        served: Served,
        store: Store,
        *,
        step: Callable[[Unit], Step],
        leads: asyncio.Event,
        still_leads: Callable[[], bool],
        clock: Callable[[], float],
    ) -> None:
        """`step` returns the next step of a unit; `leads` is set while Events may be written, and when the
        process stops: `still_leads` says whether they may be written then; `clock` counts seconds.
        """
        self._inbox = inbox
        self._events = events
        self._served = served
        self._store = store
        self._leads, self._still_leads = leads, still_leads
        self._refusals = RefusalQueue()
        self._explainer = Explainer(
            store, self._refusals, step, explain=explain_briefly, clock=clock, explained=self._explained
        )

    async def run(self) -> None:
        """Explain and write until cancelled."""
        lasting = self._inbox.lasting
        async with asyncio.TaskGroup() as group:
            group.create_task(
                lasting.run(self._in_flight, self._refusals.on_decision), name="hold refusals back"
            )
            group.create_task(self._explainer.run(), name="explain refusals")
            group.create_task(self._record_outcomes(), name="events of allocations")
            group.create_task(self._record_findings(), name="events of findings")
            group.create_task(self._events.run(), name="write events")

    async def finish(self) -> None:
        """Write the Events of what is decided and written, for some seconds at most. For after `run`."""
        outcomes, findings = self._inbox.outcomes, self._inbox.findings
        while not outcomes.empty():
            self._events.record(self._of_outcome(outcomes.get_nowait()))
        while self._still_leads() and not findings.empty():
            self._events.record(self._of_finding(findings.get_nowait()))
        await self._events.flush()

    async def _record_outcomes(self) -> None:
        outcomes = self._inbox.outcomes
        while True:
            self._events.record(self._of_outcome(await outcomes.get()))
            await asyncio.sleep(TOGETHER_SECONDS)
            while not outcomes.empty():
                self._events.record(self._of_outcome(outcomes.get_nowait()))

    async def _record_findings(self) -> None:
        """A replica that has just started finds devices in conflict long before it leads."""
        while True:
            finding = await self._inbox.findings.get()
            await self._leads.wait()
            self._events.record(self._of_finding(finding))

    def _in_flight(self, waits: Waits) -> bool:
        """Whether a claim of a refused unit is being written."""
        pod = self._store.pods.get(waits.pod) if waits.pod is not None else None
        keys = {*waits.claims, *(claims_of(pod) if pod is not None else ())}
        claims = (self._store.claims.get(key) for key in keys)
        return any(claim is not None and self._store.assumed(claim.metadata.uid) for claim in claims)

    def _explained(self, waits: Waits, explanation: Explanation | None) -> None:
        self._events.record(self._of_refusal(waits, notes.refused(waits, explanation)))

    def _of_refusal(self, waits: Waits, text: str) -> Iterator[Notice]:
        pods = [found for key in _pods_of(waits) if (found := self._pod(key)) is not None]
        for claim in self._claims(waits.claims):
            if claim.allocation is None:  # a pod may be pending for another one of its claims
                related = pods[0] if len(pods) == 1 else None
                yield Notice(self._regarding(claim), waits.reason, text, waits.decision_id, related=related)
        for pod in pods:
            yield Notice(pod, waits.reason, text, waits.decision_id)

    def _of_outcome(self, outcome: Outcome) -> Iterator[Notice]:
        if isinstance(outcome, Evicted | MoveEvicted | MovesAborted):
            yield self._of_leaving(outcome)
            return
        name, pod = outcome.decision_id, self._pod(outcome.pod)
        match outcome:
            case Allocated(devices=devices, node=node):
                text = notes.allocated(devices, node)
                for claim in self._claims([outcome.claim]):
                    yield Notice(self._regarding(claim), ALLOCATED, text, name, "Normal", related=pod)
            case DevicesGiven(devices=devices, node=node) if pod is not None:
                yield Notice(pod, ALLOCATED, notes.allocated(devices, node), name, "Normal")
            case Ungated() if pod is not None:
                yield Notice(pod, UNGATED, notes.UNGATED, name, "Normal", UNGATING)

    def _of_leaving(self, outcome: Evicted | MoveEvicted | MovesAborted) -> Notice:
        """On a pod that was evicted, which may be gone by now, or on one that was to be."""
        pod, name = (
            Regarding(self._served["Pod"].api_version, "Pod", outcome.pod, outcome.uid),
            outcome.decision_id,
        )
        match outcome:
            case Evicted(nominee=nominee):
                return Notice(pod, PREEMPTED, notes.preempted(nominee), name, "Normal", PREEMPTING)
            case MoveEvicted():
                return Notice(pod, MOVED, notes.moved(outcome), name, "Normal", MOVING)
            case MovesAborted(why=why):
                return Notice(pod, MOVES_DROPPED, notes.not_moved(why), name, "Normal", MOVING)

    def _of_finding(self, finding: Finding) -> Iterator[Notice]:
        """On the claims that still hold devices, and on the pods that they are reserved for."""
        reason = HELD_TWICE if isinstance(finding, HeldTwice) else INCOMPATIBLE
        text = notes.found(finding)
        claims = [claim for claim in self._claims(finding.claims) if claim.allocation is not None]
        concerned: list[ApiObject] = [*claims, *self._users(claims)]
        for thing in concerned:
            yield Notice(self._regarding(thing), reason, text, finding.decision_id, action=AUDITING)

    def _users(self, claims: Iterable[ResourceClaim]) -> Iterator[Pod]:
        """The pods that claims are reserved for, each once."""
        seen = set()
        for claim in claims:
            for user in claim.status.reserved_for:
                pod = self._store.pods.get(ObjectKey(claim.key.namespace, user.name))
                if pod is not None and pod.metadata.uid == user.uid and user.uid not in seen:
                    seen.add(user.uid)
                    yield pod

    def _claims(self, keys: Iterable[ObjectKey]) -> Iterator[ResourceClaim]:
        found = (self._store.claims.get(key) for key in keys)
        return (claim for claim in found if claim is not None)

    def _pod(self, key: ObjectKey | None) -> Regarding | None:
        pod = self._store.pods.get(key) if key is not None else None
        return self._regarding(pod) if pod is not None else None

    def _regarding(self, thing: ApiObject) -> Regarding:
        kind = "ResourceClaim" if isinstance(thing, ResourceClaim) else "Pod"
        return Regarding(self._served[kind].api_version, kind, thing.key, thing.metadata.uid)


def _pods_of(waits: Waits) -> Sequence[ObjectKey]:
    """The pod that waits, or the pods of the gang."""
    return waits.pods or () if waits.pod is None else (waits.pod,)
