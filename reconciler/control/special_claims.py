"""Gated pods that ask for extended resources of classes, for which kube-scheduler makes a special claim.

Source: EXT-1 to EXT-4.
"""

from msgspec import Struct

from reconciler.api.migrate.special_claims import served_by_classes
from reconciler.api.objects.core import Pod
from reconciler.api.objects.gangs import gang_of
from reconciler.api.objects.semantics import EXTENDED_RESOURCES
from reconciler.state.store import Store

OFF, UNSAFE = "ExtendedResourcesOff", "ExtendedResourcesUnsafe"
"""The reasons if kube-scheduler makes no claim, and if it may take devices that others give away."""
REMEDY = "rewrite the pod with dra-reconciler migrate"


class Unserved(Struct, frozen=True):
    """Why a pod gets no devices for its extended resources, whatever is free."""

    reason: str
    message: str


def unserved(pod: Pod, store: Store) -> Unserved | None:
    """What stands against the special claim of a gated pod; None if nothing does, or if it needs none."""
    served = served_by_classes(pod, store.supply.classes)
    if not served:
        return None
    names = ", ".join(served)
    if not store.rules.has(EXTENDED_RESOURCES):
        why = f"kube-scheduler makes no claim for {names} while the feature gate {EXTENDED_RESOURCES} is off"
        return Unserved(OFF, f"{why}; {REMEDY}")
    if gang_of(pod) is not None:
        why = f"kube-scheduler chooses the devices for {names}, so they cannot be decided with a gang"
        return Unserved(UNSAFE, f"{why}; {REMEDY}")
    return None
