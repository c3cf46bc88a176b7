"""Koordinator's devices in a scenario: the pods that hold them, and where pods find others."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress

from reconciler.allocation.placement.order import queue_key
from reconciler.analysis.whatif.scenario import Baseline, Scenario
from reconciler.api.objects.core import Pod, is_live
from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.api.objects.pinning import unpinned
from reconciler.errors import Malformed
from reconciler.plugins.koordinator.demand import Failure
from reconciler.plugins.koordinator.fleet import Fleet, Placed
from reconciler.plugins.koordinator.holdings import Allocation, Holder, holder
from reconciler.plugins.koordinator.refusals import BOTH, BOTH_WHY, Refusal, Unserved, reason_of, refusal

DAEMON_SET = "DaemonSet"


def holders(baseline: Baseline) -> dict[ObjectKey, Holder]:
    """The pods that hold devices of Device objects, without those whose annotation cannot be read."""
    found: dict[ObjectKey, Holder] = {}
    for key, pod in baseline.store.pods.items() if baseline.devices else ():
        if is_live(pod):
            with suppress(Malformed):
                if (held := holder(pod)) is not None:
                    found[key] = held
    return found


def lost_pods(
    held: Mapping[ObjectKey, Holder], scenario: Scenario, pods: Mapping[ObjectKey, Pod]
) -> Iterator[tuple[Pod, Holder]]:
    """The pods that lose their devices with a drained node, in the order in which they are placed again.

    They are as their controllers recreate them: without our pin to the node, except for a DaemonSet's pods.
    """
    lost = [pods[key] for key, one in held.items() if one.node in scenario.drained]
    for pod in sorted(lost, key=queue_key):
        if pod.key not in scenario.without:
            of_node = any(owner.kind == DAEMON_SET for owner in pod.metadata.owner_references)
            yield pod if of_node else unpinned(pod, held[pod.key].node), held[pod.key]


def device_ids(node: str, allocation: Allocation) -> Iterator[tuple[str, DeviceID]]:
    """Type and name of each device of an allocation."""
    for kind, grants in allocation.items():
        for grant in grants:
            yield kind, DeviceID(kind, node, str(grant.minor))


class DeviceSimulation:
    """The machines of a scenario. Pods that are placed hold their devices from then on."""

    def __init__(self, baseline: Baseline, scenario: Scenario, held: Mapping[ObjectKey, Holder]) -> None:
        self._known = bool(baseline.devices)
        self._fleet = Fleet(baseline.machine_rules)
        labels = {node.key.name: node.metadata.labels for node in (*baseline.nodes, *baseline.supposed)}
        for device in baseline.devices:
            if device.key.name not in scenario.drained:
                with suppress(Malformed):  # the reconciler does not use it either
                    self._fleet.put(device, labels.get(device.key.name, {}))
        for key, one in held.items():
            if key not in scenario.without and one.node not in scenario.drained:
                self._fleet.hold(key, one.node, one.allocation, one.hints)

    def serves(self, pod: Pod) -> bool:
        """Whether a pod requests devices, and there are Device objects at all."""
        return self._known and self._fleet.demands.of(pod) is not None

    def place(
        self, pod: Pod, can_run: Callable[[str], bool], left_out: Callable[[], str]
    ) -> Placed | Refusal:
        """Give a pod devices on the first node that has them and where it can run."""
        demand = self._fleet.demands.of(pod)
        assert demand is not None
        if isinstance(demand, Failure):
            return Refusal(reason_of(demand), demand.message)
        if pod.spec.resource_claims:
            return Refusal(BOTH, BOTH_WHY)
        found = self._fleet.first(demand, can_run)
        if isinstance(found, Placed):
            self._fleet.hold(pod.key, found.node, found.allocation, demand.hints)
            return found
        assert isinstance(found, Unserved)  # nothing limits the tries
        return refusal(found, left_out() if found.unsuited else "", crowded=False)
