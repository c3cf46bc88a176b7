"""Which pods may be moved: only those that somebody has opted in. Source: MOVE-6."""

from msgspec import Struct

from reconciler.api.objects.core import Pod

MOVABLE = "dra-reconciler.io/movable"
"""The label by which a pod opts in with `true`, or out of what its namespace says with `false`"""


class Allowed(Struct, frozen=True):
    """What the settings allow."""

    namespaces: frozenset[str]
    """Namespaces whose pods are opted in"""
    max_priority: int
    """Pods of a higher priority are never moved"""

    def permits(self, pod: Pod) -> bool:
        """Whether a pod may be moved."""
        if (pod.spec.priority or 0) > self.max_priority:
            return False
        said = pod.metadata.labels.get(MOVABLE)
        return said == "true" or (said is None and pod.key.namespace in self.namespaces)
