"""The order in which pods and claims are allocated: higher priority, then older object, then name."""

from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod

Place = tuple[int, str, str, str, str]
"""Sorts pods and claims; the smallest goes first."""

_YOUNGEST = "~"
"""Sorts behind every timestamp, since it sorts behind every digit."""


def place(thing: Pod | ResourceClaim) -> Place:
    """The place of a pod, or of a claim alone, among all that wait.

    A claim alone has priority 0, like a pod that states none. An object without a creation timestamp is
    the youngest. Timestamps have whole seconds, so the namespace and then the name break ties; of a pod and
    a claim that agree in all of that, the pod goes first.
    """
    urgency = -(thing.spec.priority or 0) if isinstance(thing, Pod) else 0
    created = thing.metadata.creation_timestamp or _YOUNGEST
    return urgency, created, thing.key.namespace, thing.key.name, thing.kind
