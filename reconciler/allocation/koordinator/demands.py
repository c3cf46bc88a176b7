"""Reads what pods demand; pods that ask in the same words share one reading."""

from collections.abc import Hashable, Iterable, Iterator

from reconciler.allocation.koordinator.answers import Answers
from reconciler.allocation.koordinator.demand import Demand, read_demand
from reconciler.allocation.koordinator.failure import Failure
from reconciler.api.koordinator.names import ALLOCATE_HINT, ISOLATION_PROVIDER, JOINT_ALLOCATE, PARTITION_SPEC
from reconciler.api.objects.core import Container, Pod
from reconciler.state.koordinator.rules import Rules

KEPT = 1 << 10
"""Maximum number of demands that are kept."""


class Demands:
    """The most recently read demands, under one set of rules."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._read: Answers[Demand] = Answers(KEPT)

    def of(self, pod: Pod) -> Demand | Failure | None:
        """What `read_demand` returns. Failures are not kept: they name the pod."""
        words = _words(pod)
        known = self._read.recall(words)
        if known is not None:
            return known
        found = read_demand(pod, self._rules)
        return self._read.keep(words, found) if isinstance(found, Demand) else found


def _words(pod: Pod) -> Hashable:
    """All that a reading depends on."""
    notes = pod.metadata.annotations
    return (
        tuple(_amounts(pod.spec.containers)),
        tuple(_amounts(pod.spec.init_containers)),
        tuple(container.restart_policy for container in pod.spec.init_containers),
        tuple(pod.spec.overhead.items()),
        notes.get(JOINT_ALLOCATE),
        notes.get(ALLOCATE_HINT),
        notes.get(PARTITION_SPEC),
        pod.metadata.labels.get(ISOLATION_PROVIDER),
    )


def _amounts(containers: Iterable[Container]) -> Iterator[Hashable]:
    for container in containers:
        resources = container.resources
        yield tuple(resources.limits.items()), tuple(resources.requests.items())
