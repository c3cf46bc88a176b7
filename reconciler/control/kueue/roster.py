"""Which pods belong to which Workload, updated pod by pod."""

from collections.abc import Set

from reconciler.api.objects.core import WORKLOAD, Pod
from reconciler.api.objects.meta import ObjectKey


class WorkloadRoster:
    """The pods of Workloads, as the pods themselves say. Whether a Workload exists is known elsewhere."""

    def __init__(self) -> None:
        self._workload: dict[ObjectKey, ObjectKey] = {}
        self._pods: dict[ObjectKey, set[ObjectKey]] = {}

    def pods(self, workload: ObjectKey) -> Set[ObjectKey]:
        """All existing pods of a Workload."""
        return self._pods.get(workload, frozenset())

    def note(self, key: ObjectKey, pod: Pod | None) -> None:
        """Update a pod."""
        before = self._workload.pop(key, None)
        if before is not None:
            self._pods[before].discard(key)
            if not self._pods[before]:
                del self._pods[before]
        name = pod.metadata.annotations.get(WORKLOAD) if pod is not None else None
        if name:
            now = self._workload[key] = ObjectKey(key.namespace, name)
            self._pods.setdefault(now, set()).add(key)
