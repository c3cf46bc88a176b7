"""Pods of one template: whether they may use the same nodes, and how many of them each node takes."""

from operator import itemgetter

from kernels.room import copies
from kernels.types import Amounts
from reconciler.allocation.placement.filters import ROOM, tests_of
from reconciler.allocation.placement.pod_tests import Question
from reconciler.api.objects.core import Pod
from reconciler.state.nodes.demand import demand
from reconciler.state.pods.residents import Residents

_OF_SPEC = itemgetter(
    "node_name",
    "node_selector",
    "affinity",
    "tolerations",
    "priority",
    "preemption_policy",
    "containers",
    "init_containers",
    "overhead",
    "resources",
    "topology_spread_constraints",
    "host_network",
    "host_users",
    "volumes",
)
_OF_STATUS = itemgetter("nominated_node_name", "container_statuses", "init_container_statuses")


def _needs(pod: Pod) -> tuple[object, ...]:
    """What decides on which nodes a pod may run, but its labels and its claims."""
    spec, status = pod.spec.__dict__, pod.status.__dict__  # half the time of asking the models for each
    return pod.gated, pod.key.namespace, _OF_SPEC(spec), _OF_STATUS(status)


class Likeness:
    """What other pods must have in common with one, so that they may run on the same nodes. None of them has
    an allocated claim.
    """

    def __init__(self, of: Pod, residents: Residents) -> None:
        self._needs = _needs(of)
        self._labels = of.metadata.labels
        self._residents = residents

    def is_copy(self, pod: Pod) -> bool:
        """Whether a pod has it.

        Labels may differ, as those with the number of a pod do, where no other pod looks at them.
        """
        if _needs(pod) != self._needs:
            return False
        if pod.metadata.labels == self._labels:
            return True
        return not (self._residents.against(pod) or self._residents.asks_for_namespaces(pod, ()))


def room_for_copies(question: Question) -> Amounts | None:
    """(N,) by row: how many copies of a pod each node takes beside the pods that are there, itself included.

    None if that is not a matter of the resources of each node alone: copies with ports, affinity, spread or
    volumes change where the next one may run.
    """
    pod, nodes = question.pod, question.nodes
    if pod.spec.node_name or pod.spec.volumes or question.waived or question.held:
        return None
    if any(test.by_pods and test.plugin != ROOM for test in tests_of(question)):
        return None
    free = nodes.room.free(question.waived, but=())  # the pod itself is one of those that are there
    return copies(free, nodes.room.vector(demand(pod)))
