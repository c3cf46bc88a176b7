"""How many devices of each type passed each test, as logs report it."""

from collections.abc import Callable, Container, Iterable
from typing import NamedTuple

from msgspec import Struct

from reconciler.allocation.placement.placing import refusal_reason
from reconciler.api.objects.core import Pod, is_live
from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.api.objects.plan import Gate, RequestCount
from reconciler.cluster.pod_writer import PodWriter
from reconciler.control.decisions.allocating import DevicesGiven, Ungated, Waits
from reconciler.control.decisions.declaration import Report
from reconciler.control.handler import Ask, Decided, Given, Handler, Idle, Refused, Stuck
from reconciler.control.inputs import Asked, Outcome
from reconciler.control.intake import Intake
from reconciler.control.units import Kind, Unit
from reconciler.control.waiting import Wants
from reconciler.errors import Conflict, Gone, Rejected, Retry, Undecided
from reconciler.plugins.koordinator.annotations import allocation_patch
from reconciler.plugins.koordinator.demand import Demand, Failure
from reconciler.plugins.koordinator.filters import KindCount
from reconciler.plugins.koordinator.fleet import Placed
from reconciler.plugins.koordinator.holdings import Holder
from reconciler.plugins.koordinator.names import ALLOCATED
from reconciler.plugins.koordinator.pods import DeviceIntake, Grant, KoordinatorState
from reconciler.plugins.koordinator.refusals import (
    BOTH,
    BOTH_WHY,
    OFFERED,
    Refusal,
    Unserved,
    reason_of,
    refusal,
)


def counts(pod: ObjectKey, found: tuple[KindCount, ...]) -> tuple[RequestCount, ...]:
    """How many devices of each type passed each test."""
    return tuple(
        RequestCount(pod, count.kind, count.wanted, tuple(Gate(name, left) for name, left in count.gates))
        for count in found
    )


class GrantWriter:
    """Writes grants. A grant is assumed until the answer of the server to its write is known."""

    def __init__(self, devices: DeviceIntake, writer: PodWriter) -> None:
        self._devices = devices
        self._writer = writer

    async def write(self, grant: Grant) -> None:
        """Write an assumed grant.

        Conflict, Retry, Rejected, Gone: the devices are free again. Undecided or cancelled, or if
        the pod cannot be read after a refusal: the grant stays assumed.
        """
        try:
            await self._send(grant)
        except Undecided:
            raise
        except (Conflict, Rejected) as exc:
            found = await self._read(grant.pod.key)
            self._devices.forget(grant)
            if isinstance(exc, Rejected) and found is not None and _version(found) != _version(grant.pod):
                # The pod has changed, so the steps of the patch did not apply: that is a conflict as well.
                raise Conflict(str(exc)) from exc
            raise
        except (Retry, Gone):
            self._devices.forget(grant)
            raise

    async def resolve(self, grant: Grant) -> bool:
        """Find out whether a write without an answer was applied. Returns whether the pod has the grant.

        A write in flight applies only to the version it was decided from. If the pod still has that
        version, the same is written again, so that it does not matter which of the two arrives. On any
        error the grant stays assumed: the first write may be applied by then.
        """
        found = await self._read(grant.pod.key)
        if found is None or found.metadata.uid != grant.pod.metadata.uid:
            self._devices.forget(grant)
            return False
        if _version(found) != _version(grant.pod):
            self._devices.forget(grant)  # if it was written, `_read` has counted it already
            return found.metadata.annotations.get(ALLOCATED) == grant.text
        await self._send(grant)
        return True

    async def _send(self, grant: Grant) -> None:
        self._devices.observe(
            await self._writer.patch(grant.pod, allocation_patch(grant.pod, grant.held.node, grant.text))
        )
        # If it is still assumed, the server stored the pod without the annotation.
        self._devices.forget(grant)

    async def _read(self, key: ObjectKey) -> Pod | None:
        pod = await self._writer.read(key)
        if pod is not None:
            self._devices.observe(pod)
        return pod


def _version(pod: Pod) -> str:
    return pod.metadata.resource_version


TRIES = 64
"""Machines that are tried before other tasks run: some 20 ms."""
HELD = "HoldsDevices"


class Where(NamedTuple):
    """Nodes on which a pod may run."""

    names: Container[str]
    crowded: bool
    """Whether other nodes are excluded because pods use their resources"""


class DeviceQuestion(Struct, frozen=True):
    """A pod, and the devices that it requests."""

    pod: Pod
    demand: Demand


class DeviceRefusal(Struct, frozen=True):
    """Why there are no devices."""

    question: DeviceQuestion
    why: Refusal


class Unanswered(NamedTuple):
    """A write without an answer yet, to be reported once it is applied."""

    grant: Grant
    decided: Decided


class KoordinatorHandler(Handler[DeviceQuestion, Grant, DeviceRefusal]):
    """Allocates devices to gated pods that request them in Koordinator's way."""

    def __init__(
        self,
        state: KoordinatorState,
        devices: DeviceIntake,
        intake: Intake,
        writer: PodWriter,
        *,
        clock: Callable[[], float],
        report: Report,
    ) -> None:
        """`clock` is that of the loop; `report` gets every write."""
        self._state = state
        self._devices = devices
        self._intake = intake
        self._grants = GrantWriter(devices, writer)
        self._clock = clock
        self._report = report
        self._unanswered: dict[Unit, Unanswered] = {}

    async def resolve(self, unit: Unit) -> None:
        lost = self._state.assumed(unit.key) if unit.kind is Kind.POD else None
        began = self._clock()
        if lost is not None and await self._grants.resolve(lost):
            self._report_given(unit, self._unanswered.get(unit) or Unanswered(lost, Decided("", began)))
        elif unit in self._unanswered and self._demand(unit) is None:
            self._report_applied(unit)

    def next(self, unit: Unit) -> Idle | Stuck | Ask[DeviceQuestion] | None:
        pod = self._state.pod(unit.key) if unit.kind is Kind.POD else None
        if pod is None:
            return None
        demand = self._demand(unit)
        if demand is None:
            return None
        if isinstance(demand, Failure):
            return _stuck(pod, reason_of(demand), demand.message)
        if pod.spec.resource_claims:
            return _stuck(pod, BOTH, f"pod {pod.key} {BOTH_WHY}")
        if ALLOCATED in pod.metadata.annotations:
            why = f"has the annotation {ALLOCATED} already; remove the annotation, or the gate to keep it"
            return _stuck(pod, HELD, f"pod {pod.key} {why}")
        return Ask(DeviceQuestion(pod, demand))

    def _demand(self, unit: Unit) -> Demand | Failure | None:
        """What a pod requests, or why it is refused. None if it requests nothing, or no longer."""
        pod = self._state.pod(unit.key)
        return self._state.demand(unit.key) if pod is not None and pod.gated and is_live(pod) else None

    def decide(
        self,
        question: DeviceQuestion,
        others: Iterable[Unit],  # noqa: ARG002
    ) -> list[Given[Grant] | Refused[DeviceRefusal] | None]:
        answer = self._answer(question)
        if answer is not None:
            self._intake.note(Asked((Unit(Kind.POD, question.pod.key),)))
        return [answer]

    def _answer(self, question: DeviceQuestion) -> Given[Grant] | Refused[DeviceRefusal] | None:
        pod, demand = question.pod, question.demand
        fleet = self._state.fleet
        try:
            where = self._where(pod)
        except Rejected as exc:
            return _refused(DeviceRefusal(question, Refusal(refusal_reason(exc), str(exc))))
        found = fleet.first(demand, where.names.__contains__, tries=TRIES)
        if found is None:  # other tasks run; the next turn goes on where this one ends
            self._intake.put(Unit(Kind.POD, pod.key))
            return None
        if isinstance(found, Unserved):
            left_out = self._left_out(pod) if found.unsuited else ""
            return _refused(DeviceRefusal(question, refusal(found, left_out, crowded=where.crowded)))
        text = fleet.text(found.node, found.allocation)
        return Given(_grant(pod, demand, found, text))

    def _where(self, pod: Pod) -> Where:
        """The nodes on which a pod may run. Raises Rejected for an affinity that cannot be read."""
        snapshot = self._intake.store.snapshot()
        found = self._intake.placement.for_pod(pod, (), snapshot, offered=OFFERED)
        names = snapshot.topology.nodes.keys() if found.nodes is None else frozenset(found.nodes)
        return Where(names, found.crowded)

    def _left_out(self, pod: Pod) -> str:
        return self._intake.placement.left_out(pod, (), self._intake.store.snapshot(), offered=OFFERED)

    def outcome(self, answer: Given[Grant] | Refused[DeviceRefusal]) -> Outcome:
        if isinstance(answer, Refused):
            return Outcome(reason=answer.reason)
        return Outcome(node=answer.grant.held.node, devices=((answer.grant.text,),))

    def assume(self, grant: Grant) -> None:
        self._devices.assume(grant)

    async def write(self, grant: Grant, decided: Decided) -> None:
        unit = Unit(Kind.POD, grant.pod.key)
        found = self._unanswered[unit] = Unanswered(grant, decided)
        await self._grants.write(grant)
        self._report_given(unit, found)

    def waits(self, refusal: DeviceRefusal, name: str) -> Waits:
        pod, demand, why = refusal.question.pod, refusal.question.demand, refusal.why
        fleet = self._state.fleet
        found = counts(pod.key, fleet.counts(demand))
        nodes = len(fleet.machines)
        return Waits((), pod.key, why.reason, why.message, nodes, 0, found, decision_id=name)

    def _report_applied(self, unit: Unit) -> None:
        """Report an unanswered write that the watch shows to be applied."""
        pod, found = self._state.pod(unit.key), self._unanswered.pop(unit)
        if pod is None or pod.metadata.uid != found.grant.pod.metadata.uid:
            return
        if pod.metadata.annotations.get(ALLOCATED) == found.grant.text:
            self._report_given(unit, found)

    def _report_given(self, unit: Unit, found: Unanswered) -> None:
        self._unanswered.pop(unit, None)
        held, (name, began) = found.grant.held, found.decided
        devices = tuple(
            DeviceID(kind, held.node, str(given.minor))
            for kind, grants in held.allocation.items()
            for given in grants
        )
        seconds = self._clock() - began
        self._report(DevicesGiven(unit.key, devices, held.node, seconds, decision_id=name))
        self._report(Ungated(unit.key, decision_id=name))


def _grant(pod: Pod, demand: Demand, placed: Placed, text: str) -> Grant:
    return Grant(pod, demand, Holder(placed.node, placed.allocation, demand.hints), text)


def _refused(found: DeviceRefusal) -> Refused[DeviceRefusal]:
    # Changed nodes, and nodes with more room, wake it as they wake pods with claims.
    wants = Wants(frozenset(), room=False, crowded=found.why.crowded, demand=found.question.demand)
    return Refused(found, found.why.reason, wants, (found.question.pod.key,))


def _stuck(pod: Pod, reason: str, message: str) -> Stuck:
    return Stuck(Waits((), pod.key, reason, message), (pod.key,))
