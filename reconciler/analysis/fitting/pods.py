"""The pods of a set one by one. No object on a server has their names or the uids of their claims."""

from reconciler.analysis.fitting.question import PodSet
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod


def pod_of(asked: PodSet, number: int) -> Pod:
    """One of the pods."""
    metadata = asked.pod.metadata.model_copy(update={"name": f"{asked.pod.key.name} {number}"})
    return asked.pod.model_copy(update={"metadata": metadata})


def claims_of(asked: PodSet, number: int) -> tuple[ResourceClaim, ...]:
    """Its own claims."""
    return tuple(
        claim.model_copy(
            update={"metadata": claim.metadata.model_copy(update={"uid": uid_of(asked, number, at)})}
        )
        for at, claim in enumerate(asked.claims)
    )


def uid_of(asked: PodSet, number: int, at: int) -> str:
    """The uid of one of its claims."""
    return f"fit {asked.name} {number} {at}"
