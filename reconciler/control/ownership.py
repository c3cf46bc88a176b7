"""Which claims this controller decides, which devices it may allocate, and which claim loses a device.

The API does not tell the second writer of a device. So which claim loses it is determined afterwards from
both, and every replica finds the same one: a reserved claim stays, otherwise the older one. Source: CO-7.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from msgspec import Struct

from reconciler.api.objects.claims import (
    ALL,
    Allocation,
    CelSelector,
    DeviceClass,
    DeviceSelector,
    DeviceSubRequest,
    ResourceClaim,
    is_ours,
)
from reconciler.api.objects.core import Pod
from reconciler.api.objects.gangs import GangSource, gang_of
from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.ha.shard import OURS, WHOLE, Membership, Shard, membership
from reconciler.state.devices.ledger import Holder
from reconciler.state.store import Store

Request = TypeVar("Request", bound=DeviceSubRequest)

MANAGED = "dra-reconciler.io/managed"
"""The label of claims that we allocate even if no pod names them."""


class Ownership(Struct, frozen=True):
    """What this allocator owns. The API protects a claim from two writers, but not a device."""

    all_claims: bool = False
    """Whether every claim is ours, labelled or not"""
    drivers: frozenset[str] = frozenset()
    classes: frozenset[str] = frozenset()
    alone: bool = False
    """Whether there is no other allocator, so that all devices are ours"""
    shard: Shard = WHOLE
    """The part of the fleet that this process serves"""

    @property
    def writes(self) -> bool:
        """Whether there is any device that we may allocate."""
        return self.alone or bool(self.drivers or self.classes)

    def side(self, claim: ResourceClaim, classes: Callable[[], Mapping[str, DeviceClass]]) -> Membership:
        """The shard of a claim. `classes` returns the present classes, if they are needed."""
        return OURS if self.shard.whole else membership(claim, self.shard, classes())

    def claims(self, claim: ResourceClaim) -> bool:
        """Whether a claim is ours by itself. The claims of a gated pod are ours as well."""
        if claim.is_special:
            return False  # kube-scheduler allocates what it makes
        return self.all_claims or claim.metadata.labels.get(MANAGED) == "true"

    def frees(self, claim: ResourceClaim) -> bool:
        """Whether we must free a claim that is being deleted."""
        if self.claims(claim):
            return True
        devices = claim.allocation.devices.results if claim.allocation else ()
        return bool(devices) and self.trespass(claim, claim.allocation) is None

    def lost(self, claim: ResourceClaim) -> bool:
        """Whether a claim that was deleted is told of: it was ours, or waited for a pod."""
        if claim.allocation is None:
            return self.claims(claim) or any(one.kind == "Pod" for one in claim.metadata.owner_references)
        return self.frees(claim)

    def foreign_class(self, claim: ResourceClaim) -> str | None:
        """Why no device may be allocated to a claim, judging by its classes."""
        if self.alone or self.drivers:
            return None
        foreign = sorted({name for _, name in classes_of(claim)} - self.classes)
        if not foreign:
            return None
        return f"class {foreign[0]} is not ours: ours are {', '.join(sorted(self.classes))}"

    def restricted(self, claim: ResourceClaim) -> ResourceClaim:
        """The same claim with its requests limited to devices of our drivers.

        A request for all devices stays unchanged: it must get all of them.
        """
        if self.alone or not self.drivers:
            return claim
        requests = tuple(
            request.model_copy(
                update={
                    "exactly": request.exactly and self._restricted(request.exactly),
                    "first_available": tuple(map(self._restricted, request.first_available)),
                }
            )
            for request in claim.spec.devices.requests
        )
        devices = claim.spec.devices.model_copy(update={"requests": requests})
        return claim.replacing("spec", devices=devices)

    def _restricted(self, request: Request) -> Request:
        if request.device_class_name in self.classes or request.allocation_mode == ALL:
            return request
        ours = DeviceSelector(
            cel=CelSelector(expression=f"device.driver in {json.dumps(sorted(self.drivers))}")
        )
        # Last, so that selectors that fail on a device fail as before.
        return request.model_copy(update={"selectors": (*request.selectors, ours)})

    def trespass(self, claim: ResourceClaim, allocation: Allocation | None) -> str | None:
        """Why an allocation may not be written: the first device that is not ours. None if all are."""
        if self.alone or allocation is None:
            return None
        class_of = dict(classes_of(claim))
        for device in allocation.devices.results:
            if device.driver not in self.drivers and class_of.get(device.request) not in self.classes:
                return (
                    f"device {device.id} is not ours: neither its driver nor its class is among those we own"
                )
        return None


def classes_of(claim: ResourceClaim) -> Iterator[tuple[str, str]]:
    """Pairs of request, or `request/alternative`, and the class it names."""
    for request in claim.spec.devices.requests:
        if request.exactly is not None:
            yield request.name, request.exactly.device_class_name
        for alternative in request.first_available:
            yield f"{request.name}/{alternative.name}", alternative.device_class_name


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


class LostDevice(Struct, frozen=True):
    """A device that a claim must release, since another claim holds it by better right."""

    device: DeviceID
    winner: ObjectKey

    def __str__(self) -> str:
        return f"claim {self.winner} holds {self.device} by better right"


def is_raced(device: DeviceID, store: Store) -> bool:
    """Whether several claims hold a device, and at least one of them needs it alone."""
    state = store.state(device)
    return len(state.holders) > 1 and bool(state.alone)


def lost_device(claim: ResourceClaim, store: Store) -> LostDevice | None:
    """The device that a claim lost, if any (CO-7). Only allocations of ours that are not in use can lose."""
    if claim.status.reserved_for or not is_ours(claim):
        return None
    own = Holder(claim.metadata.uid, claim.key)
    for result in claim.allocation.devices.results if claim.allocation else ():
        if result.admin_access or not is_raced(result.id, store):
            continue
        state = store.state(result.id)
        for other in state.holders:
            rival = store.claims.get(other.claim)
            if (
                other != own
                and (own in state.alone or other in state.alone)
                and rival is not None
                and rival.allocation is not None  # an assumed plan is not on the server yet
                and (rival.status.reserved_for or _age(rival) < _age(claim))
            ):
                return LostDevice(result.id, rival.key)
    return None


def _age(claim: ResourceClaim) -> tuple[str, str]:
    """Smaller is older. Without a timestamp it counts as oldest; the uid breaks ties."""
    stamp = claim.allocation.allocation_timestamp if claim.allocation is not None else None
    return stamp or "", claim.metadata.uid
