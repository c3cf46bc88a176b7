"""Koordinator's devices in a process that reconciles, and in one that replays its journal."""

from collections.abc import Iterable
from typing import Any, cast

from reconciler.allocation.reasons.explanation import Explanation
from reconciler.api.objects.meta import ObjectKey
from reconciler.app.running import Host, Running
from reconciler.cluster.client import Client
from reconciler.cluster.discovery import discover, discover_at_least_pods, serves
from reconciler.cluster.kinds import Resource, Served
from reconciler.control.inputs import PluginInput
from reconciler.control.intake import Intake
from reconciler.control.steps import Blocked
from reconciler.control.units import Unit
from reconciler.errors import Rejected
from reconciler.operations.journal.replaying import ReplayPart
from reconciler.operations.metrics import catalogue as of
from reconciler.plugins.koordinator import annotations
from reconciler.plugins.koordinator.demand import Demand
from reconciler.plugins.koordinator.explain import explain_pod
from reconciler.plugins.koordinator.figures import amount_series, device_series
from reconciler.plugins.koordinator.fleet import Fleet
from reconciler.plugins.koordinator.handler import KoordinatorHandler
from reconciler.plugins.koordinator.holdings import Holder, recorded
from reconciler.plugins.koordinator.names import ALLOCATED
from reconciler.plugins.koordinator.page import MachinesView
from reconciler.plugins.koordinator.pods import DeviceIntake, Grant, KoordinatorState
from reconciler.plugins.koordinator.rules import Rules, Semantics
from reconciler.settings import Settings


class KoordinatorRunning(Running):
    """Machines and pods as watched, the handler of the pods, and what operators see of them."""

    holders: Iterable[str] = ("Pod",)

    def __init__(self, host: Host) -> None:
        fleet = Fleet(Rules(Semantics(host.base.settings.koordinator_semantics)))
        self._state = KoordinatorState(fleet, host.report)
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
        return self._state.keeps_from_gang(pod)


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
        return self._state.keeps_from_gang(pod)

    def explain(self, unit: Unit, reason: str) -> Explanation | None:
        pod, demand = self._state.pod(unit.key), self._state.demand(unit.key)
        if pod is None or demand is None:
            return None
        return explain_pod(pod, demand, self._state.fleet, reason)
