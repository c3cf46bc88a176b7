"""Pods that are evicted, and what is known of their end. Reads the state only."""

from datetime import datetime
from typing import NamedTuple

from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey, time_of
from reconciler.state.store import Store


class Victim(NamedTuple):
    """A pod to evict."""

    key: ObjectKey
    uid: str
    frees: tuple[tuple[ObjectKey, str], ...]
    """(key, uid) of the claims that are free without it, and those before it"""


def is_leaving(victim: Victim, store: Store) -> bool:
    """Whether a pod is being deleted, finished, or gone."""
    pod = store.pods.get(victim.key)
    return (
        pod is None
        or pod.metadata.uid != victim.uid
        or pod.metadata.deletion_timestamp is not None
        or pod.finished
    )


def has_left(victim: Victim, store: Store) -> bool:
    """Whether a pod is gone and what it held is free."""
    pod = store.pods.get(victim.key)
    if pod is not None and pod.metadata.uid == victim.uid and not pod.finished:
        return False
    claims = ((store.claims.get(key), uid) for key, uid in victim.frees)
    return all(
        claim is None or claim.metadata.uid != uid or claim.allocation is None for claim, uid in claims
    )


def started_after(moment: datetime, pod: Pod) -> bool:
    """Whether a pod started after a moment, or has not started. One without a valid time has."""
    started = time_of(pod.status.start_time or "")
    return started is None or started > moment
