"""What pods take of their nodes for the devices of their claims. Source: KEP-5517, rules NAR-1 to NAR-5."""

from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct

from reconciler.api.objects.claims import Allocation
from reconciler.api.objects.core import Pod, claims_of
from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.api.objects.plan import Plan
from reconciler.api.objects.quantity import NANO, Quantity
from reconciler.api.objects.semantics import NODE_ALLOCATABLE
from reconciler.state.devices.encoding.vocabulary import NodeUse, qualified
from reconciler.state.nodes.room import DeviceShare, demand
from reconciler.state.pods.placed import allocation_of
from reconciler.state.store import Store

UsesOf = Callable[[DeviceID], tuple[NodeUse, ...]]
"""How a device uses resources of its node; empty if it does not, or is not published"""


class ClaimUse(Struct):
    """What one claim takes of its node, in billionths by resource. Added up device by device."""

    once: dict[str, int]
    """For the claim itself"""
    per_pod: dict[str, int]
    per_container: dict[str, int]
    is_mapped: bool = False
    """Whether a device stands for a resource, so that only one pod may use the claim (NAR-4)"""

    @classmethod
    def empty(cls) -> "ClaimUse":
        return cls({}, {}, {})

    def add(self, uses: Iterable[NodeUse], driver: str, consumed: Mapping[str, Quantity]) -> None:
        """Add a device of which a claim consumes so much of each capacity.

        A capacity that the claim does not consume counts for nothing, as upstream.
        """
        for use in uses:
            amount = use.times
            if use.capacity is not None:
                own = next((q for key, q in consumed.items() if qualified(key, driver) == use.capacity), None)
                amount = 0 if own is None else -(-own.nanos * use.times // NANO)
            self.is_mapped |= use.is_mapped
            _add(self.once, use.resource, amount)
            _add(self.per_pod, use.resource, use.per_pod)
            _add(self.per_container, use.resource, use.per_container)

    def __bool__(self) -> bool:
        return bool(self.once or self.per_pod or self.per_container)


def _add(to: dict[str, int], resource: str, amount: int) -> None:
    if amount:
        to[resource] = to.get(resource, 0) + amount


def use_of(allocation: Allocation, uses_of: UsesOf) -> ClaimUse:
    """What an allocation takes of its node."""
    found = ClaimUse.empty()
    for result in allocation.devices.results:
        found.add(uses_of(result.id), result.driver, result.consumed_capacity)
    return found


def share_of(pod: Pod, claims: Mapping[ObjectKey, ClaimUse]) -> DeviceShare | None:
    """What a pod takes for its claims: as its status says, else as they are allocated; None for nothing."""
    reported = pod.status.node_allocatable_resource_claim_statuses
    if not reported and not any(claims.values()):
        return None
    fixed: dict[str, int] = {}
    containers: dict[str, dict[str, int]] = {}
    known = {one.name for one in pod.spec.all_containers}
    for one in reported:
        for mapped in one.mapping:
            _add(fixed, mapped.name, mapped.quantity.nanos if mapped.quantity else 0)
        for over in one.overhead:
            _add(fixed, over.name, over.per_pod.nanos if over.per_pod else 0)
            for container in one.containers:
                # A container that the pod does not have counts for as long as the pod runs, as upstream.
                to = containers.setdefault(container, {}) if container in known else fixed
                _add(to, over.name, over.per_container.nanos if over.per_container else 0)
    told = {one.resource_claim_name for one in reported}
    uses = {key.name: use for key, use in claims.items() if key.name not in told and use}
    for use in uses.values():
        for resource, amount in (*use.once.items(), *use.per_pod.items()):
            _add(fixed, resource, amount)
    for entry, name in pod.claim_names().items():
        referred = uses[name].per_container if name in uses else {}
        for user in pod.spec.all_containers if referred else ():
            if any(claim.name == entry for claim in user.resources.claims):
                for resource, amount in referred.items():
                    _add(containers.setdefault(user.name, {}), resource, amount)
    return DeviceShare(fixed, containers)


def demand_of(pod: Pod, store: Store, plans: Iterable[Plan] = ()) -> dict[str, int]:
    """What a pod takes of its node, also for the devices of its claims. Plans count as if they were held;
    they may be for claims that nobody wrote.
    """
    reported = pod.status.node_allocatable_resource_claim_statuses
    if not (store.supply.counts_device_shares or (reported and store.rules.has(NODE_ALLOCATABLE))):
        return demand(pod)
    held: dict[ObjectKey, Allocation | None] = {key: allocation_of(store, key) for key in claims_of(pod)}
    held |= {plan.claim: plan.allocation for plan in plans}
    uses = {key: use_of(one, store.supply.node_uses) for key, one in held.items() if one is not None}
    return demand(pod, share_of(pod, uses))
