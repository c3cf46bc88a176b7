"""A plan of moves that is being carried out."""

from collections.abc import Iterator

from msgspec import Struct, field

from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.api.objects.pods import claims_of, controller_of
from reconciler.control.rebalancing.advice import Advice, Relocation
from reconciler.state.store import Store


class Campaign(Struct):
    """What is left of it."""

    advice: Advice
    """Pods that have moved, and the one that moves, are not among its moves any more"""
    moving: Relocation | None = None
    """The pod that was evicted last, until what replaces it runs"""
    before: frozenset[str] = field(default_factory=frozenset)
    """Uids of the pods of its controller when it was evicted"""
    asked: bool = False
    """Whether the place of the next move is held, and its eviction was requested"""
    not_before: float = 0.0
    """When the next eviction may be requested"""
    tries: int = 0
    """How often the next move was tried and found outdated"""
    deadline: float | None = None
    """Until when the replacement is to run; None until it has its place"""


def siblings(move: Relocation, store: Store) -> list[Pod]:
    """The pods of the controller of a pod that is moved."""
    namespace, uid = move.victim.key.namespace, move.controller.uid
    return [
        pod
        for pod in store.pods.values()
        if pod.key.namespace == namespace and (found := controller_of(pod)) is not None and found.uid == uid
    ]


def replacement(move: Relocation, store: Store) -> Pod | None:
    """The pod whose claims hold all of the place that was held; None if there is none yet."""
    found: Pod | None = None
    for device in move.to.devices:
        pods = [_pod_of(store.claims.get(one.claim), one.uid, store) for one in store.holders(device)]
        new = [pod for pod in pods if pod is not None and pod.metadata.uid != move.victim.uid]
        if not new or (found is not None and new[0] is not found):
            return None
        found = new[0]
    return found


def astray(move: Relocation, before: frozenset[str], store: Store) -> str:
    """Why no pod will come to the place that is held: the one that could is elsewhere. Empty if one may.

    The claims of a pod are written one after the other: it may have a part of the place.
    """
    place = set(move.to.devices)
    for pod in siblings(move, store):
        if pod.metadata.uid in before or pod.finished:
            continue
        claims = [claim for key in claims_of(pod) if (claim := store.claims.get(key)) is not None]
        if not {device for claim in claims for device in _devices(claim)} <= place:
            return f"pod {pod.key}, which replaces pod {move.victim.key}, got other devices"
        if not pod.gated:
            return f"pod {pod.key}, which replaces pod {move.victim.key}, does not have our scheduling gate"
    return ""


def _devices(claim: ResourceClaim) -> Iterator[DeviceID]:
    """The devices that a claim holds. Admin access holds none, so that no place has them (AS-1)."""
    if claim.allocation is not None:
        yield from (result.id for result in claim.allocation.devices.results if not result.admin_access)


def _pod_of(claim: ResourceClaim | None, uid: str, store: Store) -> Pod | None:
    """The pod that an allocated claim was made for from a template."""
    if claim is None or claim.metadata.uid != uid or claim.allocation is None:
        return None
    for owner in claim.metadata.owner_references:
        pod = store.pods.get(ObjectKey(claim.key.namespace, owner.name)) if owner.controller else None
        if pod is not None and pod.metadata.uid == owner.uid:
            return pod
    return None
