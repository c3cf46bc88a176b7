"""What `explain` finds out about a claim or pod: the questions that are pending, or why there is none."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from reconciler.allocation.reasons.explanation import Explanation
from reconciler.api.objects.claims import Allocation, ResourceClaim
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.plan import Granted, Unsatisfied
from reconciler.api.objects.similar_names import similar_key
from reconciler.state.devices.snapshot.snapshot import Snapshot


class AllocationQuestion(NamedTuple):
    """The input of one allocation, and its result if it was decided."""

    claims: Sequence[ResourceClaim]
    snapshot: Snapshot
    nodes: Collection[str] | None
    answer: Granted | Unsatisfied | None = None


class Situation(NamedTuple):
    """The questions about a claim or pod; if there are none, a message."""

    questions: Sequence[AllocationQuestion] = ()
    explanations: Sequence[Explanation] = ()
    """Instead of questions, for pods that request Koordinator's devices"""
    message: str = ""
    allocated: bool = False
    """Without questions: whether nothing is pending"""
    known: bool = True
    """Whether the claim or pod exists"""
    notes: Sequence[str] = ()


def without_questions(
    key: ObjectKey,
    claims: Mapping[ObjectKey, ResourceClaim],
    pods: Mapping[ObjectKey, Pod],
    *,
    of_pod: bool,
) -> Situation:
    """Say why there is nothing to decide: it is allocated, its pods have finished, or it does not exist."""
    if of_pod and key in pods:
        return Situation(message=_of_pod(pods[key], claims), allocated=True)
    if of_pod or key not in claims:
        hint = "" if of_pod or key not in pods else "; there is a pod of that name; use --pod to explain it"
        hint = hint or similar_key(key, pods if of_pod else claims)
        return Situation(message=f"there is no {'pod' if of_pod else 'claim'} {key}{hint}", known=False)
    allocation = claims[key].allocation
    if allocation is not None:
        return Situation(message=f"allocated: {_devices(allocation)}", allocated=True)
    return Situation(message="not pending: the claim is being deleted, or its pods have finished")


def _of_pod(pod: Pod, claims: Mapping[ObjectKey, ResourceClaim]) -> str:
    """The devices of a pod without pending claims."""
    names = dict.fromkeys(pod.claim_names().values())
    named = (claims.get(ObjectKey(pod.key.namespace, name)) for name in names if name is not None)
    held = [
        f"{claim.key.name}: {_devices(claim.allocation)}"
        for claim in named
        if claim is not None and claim.allocation is not None
    ]
    return f"allocated: {'; '.join(held)}" if held else "the pod has no pending claims"


def _devices(allocation: Allocation) -> str:
    devices = (f"{device.id} for request {device.request}" for device in allocation.devices.results)
    return ", ".join(devices) or "no devices"
