"""Decides pods with Koordinator's devices again, from a journal."""

from typing import Any, cast

from reconciler.allocation.reasons.explanation import Explanation
from reconciler.api.objects.meta import ObjectKey
from reconciler.control.inputs import PluginInput
from reconciler.control.intake import Intake
from reconciler.control.steps import Blocked
from reconciler.control.units import Unit
from reconciler.operations.journal.replaying import ReplayPart
from reconciler.plugins.koordinator import annotations
from reconciler.plugins.koordinator.demand import Demand
from reconciler.plugins.koordinator.explain import explain_pod
from reconciler.plugins.koordinator.fleet import Fleet
from reconciler.plugins.koordinator.handler import KoordinatorHandler
from reconciler.plugins.koordinator.holdings import Holder, recorded
from reconciler.plugins.koordinator.names import ALLOCATED
from reconciler.plugins.koordinator.pods import DeviceIntake, Grant, KoordinatorState
from reconciler.plugins.koordinator.rules import Rules, Semantics


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
