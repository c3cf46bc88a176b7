"""What pods say about the claims they use."""

from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey, OwnerReference


def is_live(pod: Pod) -> bool:
    """Whether a pod may still use its claims."""
    return not pod.finished and pod.metadata.deletion_timestamp is None


def controller_of(pod: Pod) -> OwnerReference | None:
    """Who replaces a pod when it is gone; None if nobody does."""
    return next((one for one in pod.metadata.owner_references if one.controller), None)


def claims_of(pod: Pod) -> tuple[ObjectKey, ...]:
    """The claims a pod names, in its order; one that is named twice is one claim."""
    return pod.claim_keys if pod.spec.resource_claims else ()
