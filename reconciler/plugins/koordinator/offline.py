"""Allocates Koordinator's devices to pods of manifests, one after another, without a cluster."""

from collections.abc import Callable, Iterable

from msgspec import Struct, field

from reconciler.allocation.placement.placing import Placement, refusal_reason
from reconciler.api.manifests.bundle import Bundle
from reconciler.api.objects.core import Node, Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.errors import Malformed, Rejected
from reconciler.plugins.koordinator.demand import Demand, Failure
from reconciler.plugins.koordinator.fleet import Fleet
from reconciler.plugins.koordinator.holdings import holder
from reconciler.plugins.koordinator.names import ALLOCATED
from reconciler.plugins.koordinator.objects import Device
from reconciler.plugins.koordinator.refusals import (
    BOTH,
    BOTH_WHY,
    OFFERED,
    Refusal,
    Unserved,
    reason_of,
    refusal,
)
from reconciler.plugins.koordinator.rules import Rules
from reconciler.state.nodes.room import demand as room_for
from reconciler.state.nodes.table import Nodes
from reconciler.state.store import Store


class PodQuestion(Struct, frozen=True, eq=False):
    """A question about a pod just before its decision. The fleet changes with later decisions."""

    pod: Pod
    demand: Demand | Failure
    fleet: Fleet
    can_run: Callable[[str], bool]
    """Whether the pod can run on a node, as far as its other requirements are concerned"""


class Given(Struct, frozen=True):
    """What one pod is given."""

    pod: Pod
    node: str
    text: str
    """The annotation that records it"""


class DeviceReport(Struct):
    """All decisions, in their order."""

    given: list[Given] = field(default_factory=list)
    refused: list[tuple[ObjectKey, Refusal]] = field(default_factory=list)
    """Pods that requested devices and got none, and why"""
    notes: list[str] = field(default_factory=list)
    """What could not be read of machines and of pods that hold devices"""


class Machines:
    """The machines of manifests. Pods with the result annotation hold its devices."""

    def __init__(
        self,
        bundle: Bundle,
        rules: Rules,
        pods: Iterable[Pod],
        placement: Placement,
        store: Store,
        nodes: Nodes,
        on_pod: Callable[[PodQuestion], None] = lambda _: None,
    ) -> None:
        """Counts on `nodes` the pods that get devices. The caller counts all other pods.

        `on_pod` gets every question before its decision.
        """
        self._on_pod = on_pod
        self._placement, self._store, self._nodes = placement, store, nodes
        self._fleet = Fleet(rules)
        self.report = DeviceReport()
        """All decisions so far, in their order"""
        labels = {node.key.name: node.metadata.labels for node in bundle.of(Node)}
        for device in bundle.of(Device):
            try:
                self.report.notes += self._fleet.put(device, labels.get(device.key.name, {})).notes
            except Malformed as exc:
                self.report.notes.append(str(exc))
        self._hold(pods)

    def serves(self, pod: Pod) -> bool:
        """Give a live pod its devices, or refuse it. False if it requests none, or holds some."""
        if ALLOCATED in pod.metadata.annotations:
            return False
        demand = self._fleet.demands.of(pod)
        if demand is None:
            return False
        found = self._decide(pod, demand)
        if isinstance(found, Refusal):
            self.report.refused.append((pod.key, found))
        else:
            self.report.given.append(found)
        return True

    def _hold(self, pods: Iterable[Pod]) -> None:
        for pod in pods:
            if pod.finished or pod.metadata.deletion_timestamp or ALLOCATED not in pod.metadata.annotations:
                continue
            try:
                held = holder(pod)
            except Malformed as exc:
                self.report.notes.append(str(exc))
                continue
            if held is not None:
                self._fleet.hold(pod.key, held.node, held.allocation, held.hints)

    def _decide(self, pod: Pod, demand: Demand | Failure) -> Given | Refusal:
        if isinstance(demand, Failure):
            self._on_pod(PodQuestion(pod, demand, self._fleet, lambda _: False))
            return Refusal(reason_of(demand), demand.message)
        if pod.spec.resource_claims:
            return Refusal(BOTH, BOTH_WHY)
        snapshot = self._store.snapshot()
        try:
            choice = self._placement.for_pod(pod, (), snapshot, offered=OFFERED)
        except Rejected as exc:
            return Refusal(refusal_reason(exc), str(exc))
        names = snapshot.topology.nodes.keys() if choice.nodes is None else frozenset(choice.nodes)
        self._on_pod(PodQuestion(pod, demand, self._fleet, names.__contains__))
        found = self._fleet.first(demand, names.__contains__)
        assert found is not None  # nothing limits the tries
        if isinstance(found, Unserved):
            left_out = self._placement.left_out(pod, (), snapshot, offered=OFFERED) if found.unsuited else ""
            return refusal(found, left_out, crowded=choice.crowded)
        self._fleet.hold(pod.key, found.node, found.allocation, demand.hints)
        self._nodes.host(pod.key, pod, found.node, room_for(pod))
        return Given(pod, found.node, self._fleet.text(found.node, found.allocation))
