"""Reconciles gated pods that request Koordinator's devices, in a process and in a replay."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, cast

from msgspec import Struct

from reconciler.allocation.explanation import Explanation
from reconciler.allocation.placement.placing import refusal_reason
from reconciler.api.objects.core import Pod, is_live
from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.app.control import Host, Running
from reconciler.cluster.client import Client
from reconciler.cluster.discovery import discover, discover_at_least_pods, serves
from reconciler.cluster.kinds import Resource, Served
from reconciler.cluster.pod_writer import PodWriter
from reconciler.control.decisions.allocating import DevicesGiven, Ungated, Waits
from reconciler.control.decisions.declaration import Report
from reconciler.control.handler import Ask, Blocked, Decided, Given, Handler, Needs, Refused, Stuck
from reconciler.control.inputs import Asked, Outcome, PluginInput
from reconciler.control.intake import Intake
from reconciler.control.units import Kind, Unit
from reconciler.control.waiting import Wants
from reconciler.errors import Conflict, Gone, Rejected, Retry, Undecided
from reconciler.operations.journal.replaying import ReplayPart
from reconciler.operations.metrics import catalogue as of
from reconciler.plugins.koordinator import annotations, refusals
from reconciler.plugins.koordinator.annotations import allocation_patch
from reconciler.plugins.koordinator.demand import Demand, Failure
from reconciler.plugins.koordinator.explain import explain_pod
from reconciler.plugins.koordinator.figures import amount_series, device_series
from reconciler.plugins.koordinator.filters import counts
from reconciler.plugins.koordinator.fleet import Fleet
from reconciler.plugins.koordinator.holdings import Holder, recorded
from reconciler.plugins.koordinator.page import MachinesView
from reconciler.plugins.koordinator.pods import DeviceIntake, Grant, KoordinatorState
from reconciler.plugins.koordinator.refusals import Refusal, Unserved, reason_of, refusal
from reconciler.plugins.koordinator.vocabulary import ALLOCATED, Rules, Semantics
from reconciler.settings import Settings

TRIES = 64
"""Machines that are tried before other tasks run: some 20 ms."""
HELD = "HoldsDevices"


class KoordinatorHandler(Struct, Handler, eq=False):
    """Allocates devices to gated pods that request them in Koordinator's way."""

    _state: KoordinatorState
    _devices: DeviceIntake
    _intake: Intake
    _writer: PodWriter
    clock: Callable[[], float]
    """That of the loop"""
    report: Report
    """Gets every write"""
    _unanswered: dict[Unit, tuple[Grant, Decided]] = {}
    """Writes without an answer yet, to be reported once they are applied"""

    async def resolve(self, unit: Unit) -> None:
        lost = self._state.assumed(unit.key) if unit.kind is Kind.POD else None
        began = self.clock()
        if lost is not None and await self._resolved(lost):
            self._report_given(unit, *self._unanswered.get(unit, (lost, Decided("", began))))
        elif unit in self._unanswered and self._demand(unit) is None:
            self._report_applied(unit)

    def next(self, unit: Unit) -> Needs | None:
        pod = self._state.pod(unit.key) if unit.kind is Kind.POD else None
        if pod is None:
            return None
        demand = self._demand(unit)
        if demand is None or self._state.leaves_to_class(pod, self._intake.store.supply.classes):
            return None
        if isinstance(demand, Failure):
            return _stuck(pod, reason_of(demand), demand.message)
        if pod.spec.resource_claims:
            return _stuck(pod, refusals.BOTH, f"pod {pod.key} {refusals.BOTH_WHY}")
        if ALLOCATED in pod.metadata.annotations:
            why = f"has the annotation {ALLOCATED} already; remove the annotation, or the gate to keep it"
            return _stuck(pod, HELD, f"pod {pod.key} {why}")
        return Ask(lambda _: [self._decide(unit, pod, demand)])

    def _demand(self, unit: Unit) -> Demand | Failure | None:
        """What a pod requests, or why it is refused. None if it requests nothing, or no longer."""
        pod = self._state.pod(unit.key)
        return self._state.demand(unit.key) if pod is not None and pod.gated and is_live(pod) else None

    def _decide(self, unit: Unit, pod: Pod, demand: Demand) -> Given | Refused | None:
        answer = self._answer(unit, pod, demand)
        if answer is not None:
            self._intake.note(Asked((unit,)))
        return answer

    def _answer(self, unit: Unit, pod: Pod, demand: Demand) -> Given | Refused | None:
        fleet, placement, snapshot = self._state.fleet, self._intake.placement, self._intake.store.snapshot()
        try:
            where = placement.for_pod(pod, (), snapshot, offered=refusals.OFFERED)
        except Rejected as exc:
            return self._refused(pod, demand, Refusal(refusal_reason(exc), str(exc)))
        names = snapshot.topology.nodes.keys() if where.nodes is None else frozenset(where.nodes)
        found = fleet.first(demand, names.__contains__, tries=TRIES)
        if found is None:  # other tasks run; the next turn goes on where this one ends
            self._intake.put(unit)
            return None
        if isinstance(found, Unserved):
            offered = refusals.OFFERED
            left_out = placement.left_out(pod, (), snapshot, offered=offered) if found.unsuited else ""
            return self._refused(pod, demand, refusal(found, left_out, crowded=where.crowded))
        held = Holder(found.node, found.allocation, demand.hints)
        grant = Grant(pod, demand, held, fleet.text(found.node, found.allocation))
        return Given(
            lambda: Outcome(node=held.node, devices=((grant.text,),)),
            partial(self._devices.assume, grant),
            partial(self._write, unit, grant),
        )

    def _refused(self, pod: Pod, demand: Demand, why: Refusal) -> Refused:
        # Changed nodes, and nodes with more room, wake it as they wake pods with claims.
        wants = Wants(frozenset(), room=False, crowded=why.crowded, demand=demand)
        return Refused(
            partial(Outcome, reason=why.reason),
            why.reason,
            wants,
            (pod.key,),
            partial(self._waits, pod, demand, why),
        )

    def _waits(self, pod: Pod, demand: Demand, why: Refusal, name: str) -> Waits:
        fleet = self._state.fleet
        found = counts(fleet.columns.every(), demand, pod.key)
        return Waits((), pod.key, why.reason, why.message, len(fleet.machines), 0, found, decision_id=name)

    async def _write(self, unit: Unit, grant: Grant, decided: Decided) -> None:
        self._unanswered[unit] = grant, decided
        try:
            await self._send(grant)
        except Undecided:
            raise
        except (Conflict, Rejected) as exc:
            found = await self._read(grant.pod.key)  # if it cannot be read, the grant stays assumed
            self._devices.forget(grant)
            if isinstance(exc, Rejected) and found is not None and _version(found) != _version(grant.pod):
                # The pod has changed, so the steps of the patch did not apply: that is a conflict as well.
                raise Conflict(str(exc)) from exc
            raise
        except (Retry, Gone):
            self._devices.forget(grant)
            raise
        self._report_given(unit, grant, decided)

    async def _resolved(self, grant: Grant) -> bool:
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
        steps = allocation_patch(grant.pod, grant.held.node, grant.text)
        self._intake.observe_pod(await self._writer.patch(grant.pod, steps))
        # If it is still assumed, the server stored the pod without the annotation.
        self._devices.forget(grant)

    async def _read(self, key: ObjectKey) -> Pod | None:
        pod = await self._writer.read(key)
        if pod is not None:
            self._intake.observe_pod(pod)
        return pod

    def _report_applied(self, unit: Unit) -> None:
        """Report an unanswered write that the watch shows to be applied."""
        pod, (grant, decided) = self._state.pod(unit.key), self._unanswered.pop(unit)
        if pod is None or pod.metadata.uid != grant.pod.metadata.uid:
            return
        if pod.metadata.annotations.get(ALLOCATED) == grant.text:
            self._report_given(unit, grant, decided)

    def _report_given(self, unit: Unit, grant: Grant, decided: Decided) -> None:
        self._unanswered.pop(unit, None)
        held, (name, began) = grant.held, decided
        devices = tuple(
            DeviceID(kind, held.node, str(given.minor))
            for kind, grants in held.allocation.items()
            for given in grants
        )
        seconds = self.clock() - began
        self.report(DevicesGiven(unit.key, devices, held.node, seconds, decision_id=name))
        self.report(Ungated(unit.key, decision_id=name))


def _version(pod: Pod) -> str:
    return pod.metadata.resource_version


def _stuck(pod: Pod, reason: str, message: str) -> Stuck:
    return Stuck(Waits((), pod.key, reason, message), (pod.key,))


class KoordinatorRunning(Running):
    """Machines and pods as watched, the handler of the pods, and what operators see of them."""

    holders: Iterable[str] = ("Pod",)

    def __init__(self, host: Host) -> None:
        fleet = Fleet(Rules(Semantics(host.base.settings.koordinator_semantics)))
        self._state, self._intake = KoordinatorState(fleet, host.report), host.intake
        if host.recorder is not None:
            host.recorder.add(self._state.beginning)
        self.handler = KoordinatorHandler(
            self._state,
            DeviceIntake(self._state, host.intake),
            host.intake,
            host.pod_writer,
            clock=host.base.clock,
            report=host.report,
        )
        self.view = MachinesView(self._state)
        self.series = {
            of.DEVICES.name: lambda: device_series(fleet),
            of.COUNTER_CAPACITY.name: lambda: amount_series(fleet, left=False),
            of.COUNTER_AVAILABLE.name: lambda: amount_series(fleet, left=True),
        }

    def keeps_from_gang(self, pod: ObjectKey) -> Blocked | None:
        return self._state.keeps_from_gang(pod, self._intake.store.supply.classes)


DEVICE = Resource("Device", "scheduling.koordinator.sh", "v1alpha1", "devices", namespaced=False, page=50)
"""Small pages: one object describes all devices of a node, with every virtual function."""


async def with_devices(client: Client, served: Served) -> Served:
    """The kinds of a server and Koordinator's Device. Raises Rejected if that is not served."""
    if not await serves(client, DEVICE):
        raise Rejected(
            f"the server does not serve {DEVICE.plural}.{DEVICE.group} in {DEVICE.version}: install "
            "Koordinator's resource definition, or run without --koordinator"
        )
    return Served({**served.resources, DEVICE.kind: DEVICE})


async def kinds_beside_devices(client: Client, settings: Settings) -> Served:
    """The other kinds. Claims are required only if the settings need them."""
    if settings.mode != "shadow" and not (
        settings.all_claims or settings.own_drivers or settings.own_classes
    ):
        return await discover_at_least_pods(client)
    try:
        return await discover(client)
    except Rejected as exc:
        remedy = (
            "To give Koordinator's devices alone, drop --own-driver, --own-class, --all-claims, --mode shadow"
        )
        raise Rejected(f"{exc} {remedy}") from exc


class Replay(ReplayPart):
    """The same state and handler as in a process that reconciles."""

    def __init__(self, semantics: str, intake: Intake) -> None:
        self._state = state = KoordinatorState(Fleet(Rules(Semantics(semantics))), lambda _: None)
        self._intake = intake
        devices, no_writer = DeviceIntake(state, intake), cast("Any", None)
        self.handler = KoordinatorHandler(
            state, devices, intake, no_writer, clock=lambda: 0.0, report=lambda _: None
        )

    def take(self, given: PluginInput) -> None:
        match given.what:
            case {"assume": [namespace, name, node, text]}:
                self._assume(ObjectKey(namespace, name), node, text)
            case {"forget": [namespace, name]}:
                assumed = self._state.assumed(ObjectKey(namespace, name))
                if assumed is not None:
                    self._state.forget(assumed)

    def _assume(self, key: ObjectKey, node: str, text: str) -> None:
        pod, demand, subject = self._state.pod(key), self._state.demand(key), f"Pod {key}"
        assert pod is not None
        assert isinstance(demand, Demand)
        allocation = recorded(subject, annotations.allocated(subject, {ALLOCATED: text}))
        self._state.assume(Grant(pod, demand, Holder(node, allocation, demand.hints), text))

    def keeps_from_gang(self, pod: ObjectKey) -> Blocked | None:
        return self._state.keeps_from_gang(pod, self._intake.store.supply.classes)

    def explain(self, unit: Unit, reason: str) -> Explanation | None:
        pod, demand = self._state.pod(unit.key), self._state.demand(unit.key)
        if pod is None or demand is None:
            return None
        return explain_pod(pod, demand, self._state.fleet, reason)
