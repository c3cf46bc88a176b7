"""Claims that were released, as claims that need devices again."""

from reconciler.api.objects.claims import ResourceClaim, ResourceClaimStatus
from reconciler.state.trial import Trial


def again(claim: ResourceClaim) -> ResourceClaim:
    """A claim like this one, not allocated. Its uid cannot occur on a server."""
    metadata = claim.metadata.model_copy(update={"uid": _new_uid(claim)})
    return claim.model_copy(update={"metadata": metadata, "status": ResourceClaimStatus()})


def settled(claim: ResourceClaim, trial: Trial) -> bool:
    """Whether a claim that several pods share has a place again."""
    return trial.store.assumed(_new_uid(claim)) is not None


def held_again(claim: ResourceClaim, trial: Trial) -> ResourceClaim:
    """A claim like this one, with the place that it has again."""
    plan = trial.store.assumed(_new_uid(claim))
    assert plan is not None
    return claim.model_copy(update={"status": ResourceClaimStatus(allocation=plan.allocation)})


def _new_uid(claim: ResourceClaim) -> str:
    return f"again {claim.key}"
