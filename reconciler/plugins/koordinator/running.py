"""Koordinator's devices in a process that reconciles: their pods share the queue with claims."""

from collections.abc import Iterable

from reconciler.api.objects.meta import ObjectKey
from reconciler.app.running import Host, Running
from reconciler.control.steps import Blocked
from reconciler.operations.metrics import catalogue as of
from reconciler.plugins.koordinator.figures import amount_series, device_series
from reconciler.plugins.koordinator.fleet import Fleet
from reconciler.plugins.koordinator.handler import KoordinatorHandler
from reconciler.plugins.koordinator.page import MachinesView
from reconciler.plugins.koordinator.pods import DeviceIntake, KoordinatorState
from reconciler.plugins.koordinator.rules import Rules, Semantics


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
