"""The order in which pods and claims are allocated: higher priority, then older object, then name."""

from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod

QueueKey = tuple[int, str, str, str, str]
"""Sort key of pods and claims; the smallest is first."""

_YOUNGEST = "~"
"""Sorts after every timestamp, since it sorts after every digit."""


def queue_key(thing: Pod | ResourceClaim) -> QueueKey:
    """The place of a pod, or of a claim without a pod, among all pending ones.

    A claim without a pod has priority 0, like a pod without a priority. An object without a creation
    timestamp is the youngest. Timestamps are whole seconds, so the namespace and then the name break ties.
    If a pod and a claim are equal in all of these, the pod is first.
    """
    urgency = -(thing.spec.priority or 0) if isinstance(thing, Pod) else 0
    created = thing.metadata.creation_timestamp or _YOUNGEST
    return urgency, created, thing.key.namespace, thing.key.name, thing.kind
