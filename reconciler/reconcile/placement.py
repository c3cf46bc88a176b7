"""Which nodes the claims of a pod may be decided for."""

from collections.abc import Iterable, Mapping

from reconciler.inventory.reach import NodeInfo
from reconciler.objects.claims import Allocation
from reconciler.objects.core import Pod
from reconciler.objects.nodeselector import NodeSelector


def candidates(pod: Pod, held: Iterable[Allocation], nodes: Mapping[str, NodeInfo]) -> tuple[str, ...] | None:
    """The nodes on which a pod may run and can use what its claims hold already; None if any will do.

    Taints, cordons and free CPU are left to the scheduler. Raises Rejected for a selector that
    cannot be read.
    """
    selectors = [*_affinity(pod), *(a.node_selector for a in held if a.node_selector is not None)]
    if not (selectors or pod.spec.node_name or pod.spec.node_selector):
        return None
    return tuple(sorted(name for name, node in nodes.items() if _suits(pod, node, selectors)))


def _affinity(pod: Pod) -> Iterable[NodeSelector]:
    affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
    required = affinity and affinity.required_during_scheduling_ignored_during_execution
    return [required] if required else []


def _suits(pod: Pod, node: NodeInfo, selectors: Iterable[NodeSelector]) -> bool:
    return (
        pod.spec.node_name in ("", node.name)
        and all(node.labels.get(key) == value for key, value in pod.spec.node_selector.items())
        and all(selector.matches(node.name, node.labels) for selector in selectors)
    )
