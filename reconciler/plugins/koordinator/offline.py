"""Koordinator's devices without a cluster: machines and pods of manifests, or of a listing."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec.structs import replace

from reconciler.allocation.explanation import Explanation
from reconciler.allocation.pod_devices import HeldDevices, PodDevices, PodGrant, PodRefusal
from reconciler.api.objects.core import Node, Pod
from reconciler.api.objects.meta import ApiObject, DeviceID, ObjectKey
from reconciler.api.objects.pinning import pinned
from reconciler.errors import Malformed
from reconciler.plugins.koordinator.annotations import AllocatedDevice, allocated, allocation_patch
from reconciler.plugins.koordinator.demand import Demand, Failure
from reconciler.plugins.koordinator.explain import explain_pod
from reconciler.plugins.koordinator.fleet import Fleet, Placed
from reconciler.plugins.koordinator.holdings import Allocation, Holder, holder, holder_of_all
from reconciler.plugins.koordinator.refusals import BOTH, BOTH_WHY, OFFERED, Unserved, reason_of, refusal
from reconciler.plugins.koordinator.vocabulary import ALLOCATED, Device, Rules


class OfflineMachines(PodDevices):
    """A fleet of machines. Pods with the result annotation hold its devices."""

    offered = OFFERED

    def __init__(self, objects: Iterable[ApiObject], pods: Iterable[Pod], rules: Rules) -> None:
        """`objects` are Devices, and Nodes whose labels count; `pods` may hold devices."""
        listed = list(objects)
        labels = {one.key.name: one.metadata.labels for one in listed if isinstance(one, Node)}
        devices = [one for one in listed if isinstance(one, Device)]
        self.notes: list[str] = []
        self.nodes: Sequence[str] = [device.key.name for device in devices]
        self._fleet = Fleet(rules)
        for device in devices:
            try:
                self.notes += self._fleet.put(device, labels.get(device.key.name, {})).notes
            except Malformed as exc:
                self.notes.append(str(exc))
        self._held = dict(self._holders(pods))
        for key, one in self._held.items():
            self._fleet.hold(key, one.node, one.allocation, one.hints)

    def _holders(self, pods: Iterable[Pod]) -> Iterable[tuple[ObjectKey, Holder]]:
        for pod in pods:
            if pod.finished or pod.metadata.deletion_timestamp or ALLOCATED not in pod.metadata.annotations:
                continue
            try:
                held = holder(pod)
            except Malformed as exc:
                self.notes.append(f"{exc}; it counts as holding all devices of its types on its node")
                held = holder_of_all(pod, self._fleet.machines.get(pinned(pod)))
            if held is not None:
                yield pod.key, held

    @property
    def held(self) -> Mapping[ObjectKey, HeldDevices]:
        return {key: held_devices(one.node, one.allocation) for key, one in self._held.items()}

    def refusal(self, pod: Pod) -> PodRefusal | None:
        demand = self._fleet.demands.of(pod)
        if isinstance(demand, Failure):
            return PodRefusal(reason_of(demand), demand.message)
        return PodRefusal(BOTH, BOTH_WHY) if pod.spec.resource_claims else None

    def place(
        self, pod: Pod, can_run: Callable[[str], bool], left_out: Callable[[], str]
    ) -> PodGrant | PodRefusal:
        if (why := self.refusal(pod)) is not None:
            return why
        demand = self._fleet.demands.of(pod)
        assert isinstance(demand, Demand)
        found = self._fleet.first(demand, can_run)
        if not isinstance(found, Placed):
            assert isinstance(found, Unserved)  # nothing limits the tries
            said = refusal(found, left_out() if found.unsuited else "", crowded=False)
            return PodRefusal(said.reason, said.message)
        self._fleet.hold(pod.key, found.node, found.allocation, demand.hints)
        text = self._fleet.text(found.node, found.allocation)
        return PodGrant(
            pod,
            held_devices(found.node, found.allocation),
            tuple(
                (f"{kind}/{device.minor}", _share(device))
                for kind, devices in allocated(f"Pod {pod.key}", {ALLOCATED: text}).items()
                for device in devices
            ),
            text,
            allocation_patch(pod, found.node, text),
        )

    def explain(self, pod: Pod, can_run: Callable[[str], bool], left_out: Callable[[], str]) -> Explanation:
        demand = self._fleet.demands.of(pod)
        assert demand is not None
        if isinstance(demand, Failure):
            return explain_pod(pod, demand, self._fleet, reason_of(demand))
        found = self._fleet.first(demand, can_run)
        if isinstance(found, Placed):
            explained = explain_pod(pod, demand, self._fleet, "", can_run=can_run)
            return replace(explained, node=found.node, nearest=())
        assert isinstance(found, Unserved)  # nothing limits the tries
        why = refusal(found, left_out() if found.unsuited else "", crowded=False)
        return explain_pod(pod, demand, self._fleet, why.reason, message=why.message, can_run=can_run)


def held_devices(node: str, allocation: Allocation) -> HeldDevices:
    """The devices of an allocation, by name."""
    named = (
        (kind, DeviceID(kind, node, str(grant.minor)))
        for kind, grants in allocation.items()
        for grant in grants
    )
    return HeldDevices(node, tuple(named))


def _share(device: AllocatedDevice) -> str:
    """What a pod gets of a device: amounts by resource, without domains, and virtual functions."""
    parts = [f"{name.rpartition('/')[2]} {amount}" for name, amount in device.resources.items()]
    if device.extension is not None:
        parts += [f"virtual function {function.bus_id}" for function in device.extension.vfs]
    return ", ".join(parts) or "-"
