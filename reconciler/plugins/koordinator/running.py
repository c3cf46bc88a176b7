"""Koordinator's devices in a process that reconciles: their pods share the queue with claims."""

from collections.abc import Iterable

from reconciler.api.objects.meta import ObjectKey
from reconciler.app.running import Host, Running
from reconciler.cluster.watch import Sink
from reconciler.control.planner import Blocked
from reconciler.operations.metrics import catalogue as of
from reconciler.plugins.koordinator.figures import amount_series, device_series
from reconciler.plugins.koordinator.fleet import Fleet
from reconciler.plugins.koordinator.handler import KoordinatorHandler
from reconciler.plugins.koordinator.journal import RecordedState, recorder_of_decisions
from reconciler.plugins.koordinator.page import MachinesView
from reconciler.plugins.koordinator.pods import DeviceIntake, KoordinatorState
from reconciler.plugins.koordinator.reasons import IN_A_GANG
from reconciler.plugins.koordinator.rules import Rules, Semantics


class KoordinatorRunning(Running):
    """Machines and pods as watched, the handler of the pods, and what operators see of them."""

    holders: Iterable[str] = ("Pod",)

    def __init__(self, host: Host) -> None:
        fleet, recorder = Fleet(Rules(Semantics(host.base.settings.koordinator_semantics))), host.recorder
        if recorder is None:
            self._state = KoordinatorState(fleet, host.report)
        else:
            self._state = RecordedState(fleet, host.report, recorder.note)
            recorder.add(self._state.whole)
        self._devices = DeviceIntake(self._state, host.intake)
        self.handler = KoordinatorHandler(
            self._state,
            self._devices,
            host.intake,
            host.pod_writer,
            clock=host.base.clock,
            report=host.report,
            journal=None if recorder is None else recorder_of_decisions(recorder, fleet),
        )
        self.view = MachinesView(self._state)
        self.series = {
            of.DEVICES.name: lambda: device_series(fleet),
            of.COUNTER_CAPACITY.name: lambda: amount_series(fleet, left=False),
            of.COUNTER_AVAILABLE.name: lambda: amount_series(fleet, left=True),
        }

    def sink(self, below: Sink) -> Sink:
        return lambda change: self._devices.take(change, below)

    def keeps_from_gang(self, pod: ObjectKey) -> Blocked | None:
        if not self._state.requests_devices(pod):
            return None
        why = f"pod {pod} requests Koordinator's devices; gangs may use ResourceClaims only"
        return Blocked((), IN_A_GANG, why)
