"""Events about claims and pods: why they are pending, what they got, and devices held in conflict.

Decisions go to an inbox. Refusals are held until they have lasted: most end by themselves, after a write or a
controller's turn.
"""

import asyncio
import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence

import structlog
from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.allocation.dra.claim_shapes import selectors_are_quick
from reconciler.allocation.explanation import Explanation
from reconciler.allocation.reason_table import remedy
from reconciler.analysis.explain.explain import explain_briefly
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import GATE, Pod, claims_of
from reconciler.api.objects.meta import ApiObject, DeviceID, ObjectKey
from reconciler.cluster.kinds import Served
from reconciler.control.decisions import allocating as decisions
from reconciler.control.decisions.allocating import Waits
from reconciler.control.decisions.declaration import Decision
from reconciler.control.decisions.every import Evicted, MoveEvicted, MovesAborted
from reconciler.control.handler import Decide, Step
from reconciler.control.units import Unit
from reconciler.control.waiting import Pending
from reconciler.errors import counted
from reconciler.operations.events_writer import Events, Notice, Regarding
from reconciler.state.store import Store

log = structlog.get_logger()

RECHECK_SECONDS = 1.0
"""Minimum time until a unit is checked again whose claims are being written"""


class _Held(Struct):
    """The newest refusal of a unit."""

    unit: Unit
    waits: Waits
    spell: int


class LastingRefusals:
    """Passes on the newest refusal of each unit that has been pending for some seconds without interruption.

    The time counts from the first refusal, whatever its reason. So a unit whose reason keeps changing is
    reported as well.
    """

    def __init__(self, pending: Pending, *, seconds: float, clock: Callable[[], float]) -> None:
        """`seconds` is how long a unit must be pending; `clock` counts seconds."""
        self._pending = pending
        self._seconds = seconds
        self._clock = clock
        self._held: dict[Unit, _Held] = {}
        self._due: list[tuple[float, int, _Held]] = []
        self._added = asyncio.Event()
        self._entries = 0

    def add(self, waits: Waits) -> None:
        """Hold a refusal back. Cheap, and never blocks."""
        if waits.pod is None and not waits.claims:
            return
        unit = Unit.of(waits.pod, waits.claims)
        spell, held = self._pending.spell(unit), self._held.get(unit)
        if held is not None and held.spell == spell:
            held.waits = waits
            return
        self._held[unit] = held = _Held(unit, waits, spell)
        self._schedule(held, self._seconds)
        self._added.set()

    async def run(self, in_flight: Callable[[Waits], bool], pass_on: Callable[[Waits], None]) -> None:
        """Pass on refusals until cancelled. `in_flight` tells whether a claim of one is being written."""
        while True:
            self._added.clear()
            while self._due and self._due[0][0] <= self._clock():
                self._take(heapq.heappop(self._due)[2], in_flight, pass_on)
            try:
                async with asyncio.timeout(self._due[0][0] - self._clock() if self._due else None):
                    await self._added.wait()
            except TimeoutError:
                continue

    def _take(
        self, held: _Held, in_flight: Callable[[Waits], bool], pass_on: Callable[[Waits], None]
    ) -> None:
        if self._held.get(held.unit) is not held:
            return  # it was not pending in between, and is held back anew
        if self._pending.spell(held.unit) == held.spell and in_flight(held.waits):
            self._schedule(held, max(self._seconds, RECHECK_SECONDS))
            return
        del self._held[held.unit]
        if self._pending.spell(held.unit) == held.spell:
            pass_on(held.waits)

    def _schedule(self, held: _Held, seconds: float) -> None:
        self._entries += 1
        heapq.heappush(self._due, (self._clock() + seconds, self._entries, held))


SHARE = 0.05
"""Maximum share of the time for explanations. One for a whole fleet takes some milliseconds."""
UNEXPLAINED = 64
"""Refusals that wait for their explanation. Further ones are passed on without one."""


class Explainer(Struct, eq=False):
    """Passes on each refusal once, with its explanation if there is time."""

    _store: Store
    _step: Callable[[Unit], Step]
    """What a unit needs now"""
    clock: Callable[[], float]
    explained: Callable[[Waits, Explanation | None], None]
    """Gets every refusal"""
    _due: asyncio.Queue[Waits] = field(default_factory=lambda: asyncio.Queue(UNEXPLAINED))

    def add(self, waits: Waits) -> None:
        """Add a refusal. Cheap, and never blocks."""
        if self._due.full():
            self.explained(waits, None)
        else:
            self._due.put_nowait(waits)

    async def run(self) -> None:
        """Explain and pass on until cancelled."""
        while True:
            waits = await self._due.get()
            began = self.clock()
            explanation = self._explain(waits)
            spent = self.clock() - began
            self.explained(waits, explanation)
            await asyncio.sleep(spent / SHARE - spent)

    def _explain(self, waits: Waits) -> Explanation | None:
        """None if the unit needs no devices, or no longer, since the state has changed. None for gangs.

        Also None for claims whose selectors are not evaluated yet: that might block the loop.
        """
        if (waits.pod is None and not waits.claims) or waits.gang is not None:
            return None
        unit = Unit.of(waits.pod, waits.claims)
        try:
            question = self._step(unit)
            if not isinstance(question, Decide):
                return None
            snapshot = self._store.snapshot_for(question.own)
            if not selectors_are_quick(question.claims, snapshot):
                return None
            found = explain_briefly(question.claims, snapshot, question.nodes)
        except Exception:
            # A missing explanation must not stop the reconciler.
            log.exception("explanation failed", unit=str(unit), decision_id=waits.decision_id)
            return None
        if found.allocatable:
            return None
        found = replace(found, reason=waits.reason, message=waits.message)
        log.info(
            "claim explained",
            claims=[str(claim) for claim in waits.claims],
            reason=waits.reason,
            why=found.short(),
            remedy=found.remedy,
            decision_id=waits.decision_id,
        )
        return found


BACKLOG = 256
"""Queued decisions of each sort; further ones have no Event"""

Outcome = (
    decisions.Allocated | decisions.DevicesGiven | decisions.Ungated | Evicted | MoveEvicted | MovesAborted
)
Finding = decisions.HeldTwice | decisions.ExclusionViolated | decisions.AllocationUnreadable


class EventInbox:
    """Adding a decision is cheap and never blocks."""

    def __init__(self, lasting: LastingRefusals) -> None:
        self.lasting = lasting
        """Refusals, until they have lasted"""
        self.outcomes: asyncio.Queue[Outcome] = asyncio.Queue(BACKLOG)
        """What was written"""
        self.findings: asyncio.Queue[Finding] = asyncio.Queue(BACKLOG)
        """Devices that claims hold in conflict"""

    def on_decision(self, decision: Decision) -> None:
        """Add a decision, unless no Event tells of its kind."""
        if isinstance(decision, Waits):
            self.lasting.add(decision)
        elif isinstance(decision, Outcome):
            if not self.outcomes.full():
                self.outcomes.put_nowait(decision)
        elif isinstance(decision, Finding) and not self.findings.full():
            self.findings.put_nowait(decision)


ALLOCATED, UNGATED = "Allocated", "Ungated"
HELD_TWICE, INCOMPATIBLE = "DeviceHeldTwice", "IncompatibleDevices"
UNREADABLE = "DeviceAllocationUnreadable"
PREEMPTED, MOVED, MOVES_DROPPED = "Preempted", "Moved", "MovesDropped"
"""Of preemption, kube-scheduler has the same reason and action"""
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
        self._explainer = Explainer(store, step, clock=clock, explained=self._explained)

    async def run(self) -> None:
        """Explain and write until cancelled."""
        lasting = self._inbox.lasting
        async with asyncio.TaskGroup() as group:
            group.create_task(lasting.run(self._in_flight, self._explainer.add), name="hold refusals back")
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
        self._events.record(self._of_refusal(waits, refused_note(waits, explanation)))

    def _of_refusal(self, waits: Waits, text: str) -> Iterator[Notice]:
        pods = [found for key in _pods_of(waits) if (found := self._pod(key)) is not None]
        for claim in self._claims(waits.claims):
            if claim.allocation is None:  # a pod may be pending for another one of its claims
                related = pods[0] if len(pods) == 1 else None
                yield Notice(self._regarding(claim), waits.reason, text, waits.decision_id, related=related)
        for pod in pods:
            yield Notice(pod, waits.reason, text, waits.decision_id)

    def _of_outcome(self, outcome: Outcome) -> Iterator[Notice]:
        name, pod = outcome.decision_id, self._pod(outcome.pod)
        match outcome:
            case decisions.Allocated(devices=devices, node=node):
                text = allocated_note(devices, node)
                for claim in self._claims([outcome.claim]):
                    yield Notice(self._regarding(claim), ALLOCATED, text, name, "Normal", related=pod)
            case decisions.DevicesGiven(devices=devices, node=node) if pod is not None:
                yield Notice(pod, ALLOCATED, allocated_note(devices, node), name, "Normal")
            case decisions.Ungated() if pod is not None:
                text = f"Removed the scheduling gate {GATE}: all its devices are allocated."
                yield Notice(pod, UNGATED, text, name, "Normal", UNGATING)
            case Evicted(pod=key, uid=uid, nominee=nominee):
                text = (
                    f"Preempted by {nominee}, which has a higher priority and needs the devices of this pod."
                )
                yield Notice(self._leaving(key, uid), PREEMPTED, text, name, "Normal", PREEMPTING)
            case MoveEvicted(pod=key, uid=uid, devices=devices):
                text = (
                    f"Evicted to move it to node {outcome.to}, so that one more {outcome.counted} fits in "
                    f"{outcome.place}. Held there for what replaces it: {named_devices(devices)}."
                )
                yield Notice(self._leaving(key, uid), MOVED, text, name, "Normal", MOVING)
            case MovesAborted(pod=key, uid=uid, why=why):
                text = f"A plan to move pods so that more fits was aborted at this pod: {why.rstrip('.')}."
                yield Notice(self._leaving(key, uid), MOVES_DROPPED, text, name, "Normal", MOVING)

    def _leaving(self, pod: ObjectKey, uid: str) -> Regarding:
        """A pod that was evicted, which may be gone by now, or one that was to be."""
        return Regarding(self._served["Pod"].api_version, "Pod", pod, uid)

    def _of_finding(self, finding: Finding) -> Iterator[Notice]:
        """On the claims that still hold devices, and on the pods that they are reserved for."""
        if isinstance(finding, decisions.AllocationUnreadable):
            pod = self._pod(finding.pod)
            if pod is not None:
                text = (
                    f"{finding.message}. All devices of its types on node {finding.node} count as held. "
                    "Correct the annotation, or delete the pod."
                )
                yield Notice(pod, UNREADABLE, text, finding.decision_id, action=AUDITING)
            return
        if isinstance(finding, decisions.HeldTwice):
            holders = ", ".join(map(str, finding.claims))
            what = f"Device {finding.device} is held by {holders}, but only one claim can hold it"
            reason = HELD_TWICE
        else:
            why = finding.message.rstrip(".")
            what = f"Devices that exclude one another are held at the same time: {why}"
            reason = INCOMPATIBLE
        text = f"{what}. Nothing is freed automatically: delete the pods of one of the claims."
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


MOST_NAMED = 8
"""Devices that a note names: those of a whole node, as a rule"""


def refused_note(waits: Waits, explanation: Explanation | None) -> str:
    """Why claims are pending. The nearest miss comes before the counts, because long notes are cut."""
    parts = [waits.message]
    if explanation is not None:
        parts.append(explanation.short())
    parts.append(remedy(waits.reason))
    return ". ".join(part.rstrip(".") for part in parts if part) + "."


def allocated_note(devices: Iterable[DeviceID], node: str) -> str:
    """`Allocated 2 devices on node n: gpu.example.com/n: gpu-0, gpu-1.`"""
    devices = tuple(devices)
    where = f" on node {node}" if node else ""
    return f"Allocated {counted(len(devices), 'device')}{where}: {named_devices(devices)}."


def named_devices(devices: tuple[DeviceID, ...]) -> str:
    """Devices by pool, `MOST_NAMED` at most, and how many others there are."""
    pools: dict[str, list[str]] = {}
    for device in devices[:MOST_NAMED]:
        pools.setdefault(str(device.pool_id), []).append(device.device)
    shown = "; ".join(f"{pool}: {', '.join(names)}" for pool, names in pools.items())
    more = len(devices) - MOST_NAMED
    return f"{shown} and {more} more" if more > 0 else shown
