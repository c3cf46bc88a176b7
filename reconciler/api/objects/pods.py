"""What pods say about the claims they use."""

from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey, OwnerReference, is_same_version_aside


def is_live(pod: Pod) -> bool:
    """Whether a pod may still use its claims."""
    return not pod.finished and pod.metadata.deletion_timestamp is None


def is_report(before: Pod, now: Pod) -> bool:
    """Whether a bound pod that lives changed in nothing but its status, and names the same claims as before.

    Such are the reports of kubelets. They may change what the pod takes from its node, and nothing else.
    """
    return (
        bool(now.spec.node_name)
        and not now.gated
        and (now.spec is before.spec or now.spec == before.spec)
        and now.status.resource_claim_statuses == before.status.resource_claim_statuses
        and is_live(now)
        and is_live(before)
        and is_same_version_aside(before.metadata, now.metadata)
    )


def controller_of(pod: Pod) -> OwnerReference | None:
    """Who replaces a pod when it is gone; None if nobody does."""
    return next((one for one in pod.metadata.owner_references if one.controller), None)


def claims_of(pod: Pod) -> tuple[ObjectKey, ...]:
    """The claims a pod names, in its order; one that is named twice is one claim."""
    return pod.claim_keys if pod.spec.resource_claims else ()
