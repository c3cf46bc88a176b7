"""Ties the status page to where it comes from."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from reconciler.explain.briefly import explain_briefly
from reconciler.explain.explanation import Explanation
from reconciler.explain.koordinator_pods import explain_pod
from reconciler.explain.reasons import remedy
from reconciler.koordinator.fleet import Fleet
from reconciler.objects.meta import DeviceID, ObjectKey
from reconciler.observe.capacity import Capacity
from reconciler.page.sources import Fact, Question, Sources, Waiting
from reconciler.reconcile.decisions import Decision, Waits
from reconciler.reconcile.intake import Intake
from reconciler.reconcile.koordinator.picture import Picture
from reconciler.reconcile.loop import Reconciler
from reconciler.reconcile.steps import Decide, Planner
from reconciler.reconcile.units import Kind, Unit

SPARE = 1000
"""Messages kept beyond twice those of who waits, before the others are dropped"""


class Showing:
    """What the page is told about a reconciler at work, and the last message of every refusal."""

    def __init__(
        self, intake: Intake, reconciler: Reconciler, planner: Planner, machines: Picture | None
    ) -> None:
        """`machines` are those with Koordinator's devices, where they are served."""
        self._intake = intake
        self._reconciler = reconciler
        self._planner = planner
        self._machines = machines
        self._said: dict[Unit, str] = {}

    def hear(self, decision: Decision) -> None:
        """Take in a decision; only refusals are of interest."""
        if not isinstance(decision, Waits) or not (decision.pod or decision.claims):
            return
        unit = _unit(decision)
        self._said.pop(unit, None)
        self._said[unit] = decision.message
        pending = self._reconciler.pending
        if len(self._said) > 2 * len(pending) + SPARE:
            self._said = {unit: text for unit, text in self._said.items() if pending.reason(unit)}

    def sources(
        self,
        capacity: Capacity,
        facts: Callable[[], Sequence[Fact]],
        *,
        clock: Callable[[], float],
        now: Callable[[], datetime],
    ) -> Sources:
        """`facts` are those about the process; those about the fleet come after them."""
        intake, pending = self._intake, self._reconciler.pending
        return Sources(
            ready=intake.listed.is_set,
            now=now,
            clock=clock,
            facts=lambda: [*facts(), *self._facts()],
            picture=intake.store.snapshot,
            capacity=capacity,
            claims=lambda: intake.store.claims,
            devices_of=self._devices_of,
            waiting=self._waiting,
            by_reason=pending.by_reason,
            news=self._news,
            fleet=self._fleet,
            explain=self._explain,
        )

    def _facts(self) -> Iterator[Fact]:
        intake, reconciler = self._intake, self._reconciler
        if intake.pause.paused:
            yield Fact("Writes", f"paused: {intake.pause.why}; {intake.pause.held} held back", grave=True)
        else:
            yield Fact("Writes", "go on")
        if intake.listed.is_set():
            twice = intake.held_twice
            over = int((intake.store.snapshot().occupancy.left < 0).any(axis=1).sum())
            yield Fact("Devices held twice", str(twice), grave=twice > 0)
            yield Fact("Counter sets over-committed", str(over), grave=over > 0)
        if refused := len(intake.store.refused):
            yield Fact("Objects that cannot be read", str(refused), grave=True)
        if reconciler.failures:
            yield Fact("Turns that failed", str(reconciler.failures), grave=True)

    def _news(self) -> Hashable:
        fleet = self._fleet()
        return self._reconciler.pending.changes, fleet.changes if fleet is not None else 0

    def _fleet(self) -> Fleet | None:
        return self._machines.fleet if self._machines is not None else None

    def _devices_of(self, claim: ObjectKey) -> Sequence[DeviceID]:
        known = self._intake.store.claims.get(claim)
        if known is None:
            return ()
        plan = self._intake.store.assumed(known.metadata.uid)
        allocation = plan.allocation if plan is not None else known.allocation
        if allocation is None:
            return ()
        return [DeviceID(one.driver, one.pool, one.device) for one in allocation.devices.results]

    def _waiting(self) -> Iterator[Waiting]:
        for unit, reason, named in self._reconciler.pending:
            said = self._said.get(unit, "")
            claims = named
            if unit.kind is Kind.POD and unit.key not in self._intake.store.claims:
                claims = tuple([key for key in named if key != unit.key])  # it is counted by its own name
            yield Waiting(str(unit.kind), unit.key, claims, reason, said, remedy(reason))

    def _explain(self, question: Question) -> Explanation | None:
        unit = Unit(Kind(question.kind), question.key)
        if not self._intake.listed.is_set():
            return None
        told = self._explain_devices(unit)
        if told is not None:
            return replace(told, message=self._said.get(unit, told.message))
        asked = self._planner.next(unit)
        if not isinstance(asked, Decide):
            return None
        found = explain_briefly(asked.claims, self._intake.store.snapshot(), asked.nodes)
        reason = self._reconciler.pending.reason(unit)
        if reason and not found.allocatable:
            found = replace(found, reason=reason, message=self._said.get(unit, found.message))
        return found

    def _explain_devices(self, unit: Unit) -> Explanation | None:
        """Why a pod waits for Koordinator's devices; None if it does not."""
        if self._machines is None or unit.kind is not Kind.POD:
            return None
        pod, demand = self._machines.pod(unit.key), self._machines.demand(unit.key)
        reason = self._reconciler.pending.reason(unit)
        if pod is None or demand is None or not reason:
            return None
        return explain_pod(pod, demand, self._machines.fleet, reason)


def _unit(waits: Waits) -> Unit:
    return Unit(Kind.POD, waits.pod) if waits.pod is not None else Unit(Kind.CLAIM, waits.claims[0])
