"""Uids for claims of manifests: they have none, or the one of the object that they were copied from."""

from reconciler.api.objects.claims import ResourceClaim


def with_own_uid(claim: ResourceClaim) -> ResourceClaim:
    """The claim with its namespace and name as its uid."""
    metadata = claim.metadata.model_copy(update={"uid": str(claim.key)})
    return claim.model_copy(update={"metadata": metadata})
