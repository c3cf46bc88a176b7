"""The mark that identifies our own allocations, also after a restart.

It is an annotation of the claim, which announces the allocation before it is written. If an admission policy
announced the claim as it was created, the mark is in the allocation instead, and no other write is needed.
"""

from hashlib import sha256

from reconciler.api.objects.claims import ALLOCATED_AT, FINALIZER, AllocatedConfig, Allocation, ResourceClaim
from reconciler.api.objects.requests import OWN_DRIVER, OpaqueConfig

ANNOUNCED = "announced"
"""The value of the annotation that `deploy/admission/announce-claims.yaml` writes"""
_SIGNATURE = "allocatedAt"
"""The field of our opaque parameters that has the mark"""


def mark(stamp: str, allocation: Allocation) -> str:
    """The timestamp of the allocation, and a fingerprint of its devices."""
    return f"{stamp} {_fingerprint(allocation)}"


def signed(allocation: Allocation, stamp: str) -> Allocation:
    """The allocation with its mark in a configuration of ours, which drivers ignore."""
    parameters = {_SIGNATURE: mark(stamp, allocation)}
    own = AllocatedConfig(source="FromClaim", opaque=OpaqueConfig(driver=OWN_DRIVER, parameters=parameters))
    config = (*allocation.devices.config, own)
    return allocation.model_copy(update={"devices": allocation.devices.model_copy(update={"config": config})})


def is_announced(claim: ResourceClaim) -> bool:
    """Whether an admission policy added the finalizer and announced our allocation."""
    metadata = claim.metadata
    return FINALIZER in metadata.finalizers and metadata.annotations.get(ALLOCATED_AT) == ANNOUNCED


def is_ours(claim: ResourceClaim) -> bool:
    """Whether the allocation of a claim is the one that we wrote.

    Servers before 1.36 drop the timestamp of an allocation. Then the devices are compared: an allocation
    by another allocator counts as ours if it has the same devices.
    """
    allocation, marked = claim.allocation, claim.metadata.annotations.get(ALLOCATED_AT)
    if allocation is not None and marked == ANNOUNCED:
        marked = _signature(allocation)
    if allocation is None or not marked:
        return False
    stamp, _, devices = marked.partition(" ")
    if allocation.allocation_timestamp is not None:
        return stamp == allocation.allocation_timestamp
    return devices == _fingerprint(allocation)


def _signature(allocation: Allocation) -> str:
    """The mark in an allocation; empty if there is none."""
    for config in reversed(allocation.devices.config):
        if config.opaque is not None and config.opaque.driver == OWN_DRIVER:
            parameters = config.opaque.parameters
            found = parameters.get(_SIGNATURE) if isinstance(parameters, dict) else None
            if isinstance(found, str):
                return found
    return ""


def _fingerprint(allocation: Allocation) -> str:
    """A hash of what every server keeps: which request got which device."""
    text = "\n".join(
        f"{result.request} {result.driver} {result.pool} {result.device}"
        for result in allocation.devices.results
    )
    return sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:16]
