"""Pods of one template: whether they may use the same nodes, and how many of them each node takes."""

from operator import itemgetter

from kernels.room import copies
from kernels.types import Amounts
from reconciler.allocation.placement.filters import ROOM, tests_of
from reconciler.allocation.placement.pod_tests import Question
from reconciler.api.objects.core import Pod
from reconciler.state.nodes.demand import demand
from reconciler.state.pods.residents import Residents

# What decides on which nodes a pod may run, but its labels and its claims. Read from the fields, which takes
# half the time of asking the models for each.
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


class Likeness:
    """What other pods must have in common with one, so that they may run on the same nodes. None of them has
    an allocated claim.
    """

    def __init__(self, of: Pod, residents: Residents) -> None:
        self._of = of
        self._status = _OF_STATUS(of.status.__dict__)
        self._labels = of.metadata.labels
        self._residents = residents

    def is_copy(self, pod: Pod) -> bool:
        """Whether a pod has it.

        Labels may differ, as those with the number of a pod do, where no other pod looks at them.
        """
        of = self._of
        if pod.spec is not of.spec and (
            pod.gated != of.gated or _OF_SPEC(pod.spec.__dict__) != _OF_SPEC(of.spec.__dict__)
        ):
            return False
        if pod.key.namespace != of.key.namespace or _OF_STATUS(pod.status.__dict__) != self._status:
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
