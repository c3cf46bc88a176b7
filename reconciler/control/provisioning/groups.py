"""Gated pods that wait for devices, in groups of equal ones: each group is one request for nodes."""

from collections.abc import Iterable
from hashlib import sha256

from msgspec import Struct

from reconciler.allocation.placement.order import place
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.model import text_of
from reconciler.api.objects.pods import claims_of, controller_of, is_live
from reconciler.api.objects.provisioning import MOST_SETS
from reconciler.control.ownership import Ownership
from reconciler.ha.shard import Side
from reconciler.state.store import Store

_NAME = 44
"""Characters that a name takes from what it is for"""


class Group(Struct, frozen=True):
    """Equal pods of one maker that have no devices yet."""

    key: ObjectKey
    """The name of the request for them; the same after a restart"""
    pods: tuple[Pod, ...]
    """In the order in which they get devices"""
    claims: tuple[ResourceClaim, ...]
    """Of the first pod, limited to devices that are ours"""

    @property
    def pod(self) -> Pod:
        """The first of them."""
        return self.pods[0]

    @property
    def count(self) -> int:
        """How many pods wait."""
        return len(self.pods)

    def last(self, count: int) -> dict[str, tuple[Pod, ...]]:
        """Of the `count` pods that get devices last, by the name of the template for those that name the same
        claims: the first, in as many templates as one request may have.
        """
        found: dict[str, tuple[Pod, ...]] = {}
        for pod in self.pods[-count:]:
            name = _name(self.key.name, *(claim.name for claim in claims_of(pod)))
            if name in found or len(found) < MOST_SETS:
                found[name] = (*found.get(name, ()), pod)
        return found


def groups_of(store: Store, ours: Ownership) -> tuple[Group, ...]:
    """All groups, by name. Pods whose claims are not all there, not all ours to serve, or partly allocated,
    are left out.
    """
    found: dict[ObjectKey, list[Pod]] = {}
    for pod in store.pods.values():
        if pod.gated and is_live(pod) and not pod.spec.node_name and _waits(pod, store, ours):
            found.setdefault(_key(pod), []).append(pod)
    return tuple(_group(key, pods, store, ours) for key, pods in sorted(found.items()))


def _group(key: ObjectKey, pods: Iterable[Pod], store: Store, ours: Ownership) -> Group:
    listed = tuple(sorted(pods, key=place))
    claims = tuple(ours.restricted(store.claims[one]) for one in claims_of(listed[0]))
    return Group(key, listed, claims)


def _waits(pod: Pod, store: Store, ours: Ownership) -> bool:
    claims = [store.claims.get(key) for key in claims_of(pod)]
    return bool(claims) and all(
        one is not None
        and one.allocation is None
        and store.assumed(one.metadata.uid) is None
        and ours.foreign_class(one) is None
        and ours.side(one, lambda: store.snapshot().classes).side is Side.OURS
        for one in claims
    )


def _key(pod: Pod) -> ObjectKey:
    maker = controller_of(pod)
    name, uid = (maker.name, maker.uid) if maker is not None else (pod.key.name, pod.metadata.uid)
    spec = text_of(pod.spec, without="hostname")
    return ObjectKey(pod.key.namespace, _name(f"dra-{name}", uid, spec.decode()))


def _name(start: str, *parts: str) -> str:
    """A name that differs where one of the parts does."""
    mark = sha256("\0".join((start, *parts)).encode()).hexdigest()[:10]
    return f"{start[:_NAME].rstrip('-.')}-{mark}"
