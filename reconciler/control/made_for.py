"""What a claim was created for from a template: a pod, or the PodGroup of a pod."""

from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod
from reconciler.api.objects.gangs import GangSource, gang_of


def is_made_for(claim: ResourceClaim, pod: Pod) -> bool:
    """Whether a claim was created from a template for this pod."""
    return pod.metadata.uid in [owner.uid for owner in claim.metadata.owner_references if owner.controller]


def is_made_for_group(claim: ResourceClaim, pod: Pod) -> bool:
    """Whether a claim was created from a template for the PodGroup of this pod. Source: GANG-5.

    Pods name their group, but do not know its uid.
    """
    group = gang_of(pod)
    return (
        group is not None
        and group.source is GangSource.POD_GROUP
        and any(
            owner.controller
            and owner.kind == "PodGroup"
            and owner.api_version.partition("/")[0] == "scheduling.k8s.io"
            and owner.name == group.name
            for owner in claim.metadata.owner_references
        )
    )


def is_made_for_another(claim: ResourceClaim, pod: Pod) -> bool:
    """Whether a pod names a claim as made from a template, and it was made for something else (SCHED-1)."""
    if is_made_for(claim, pod):  # most claims that are made from templates
        return False
    by_template = [e.name for e in pod.spec.resource_claims if e.resource_claim_template_name is not None]
    if not by_template:
        return False
    made = {name for entry, name in pod.claim_names().items() if entry in by_template}
    return claim.key.name in made and not is_made_for_group(claim, pod)
