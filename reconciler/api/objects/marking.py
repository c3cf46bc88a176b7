"""The annotation that identifies our own allocations, also after a restart."""

from hashlib import sha256

from reconciler.api.objects.claims import ALLOCATED_AT, Allocation, ResourceClaim


def mark(stamp: str, allocation: Allocation) -> str:
    """The value of the annotation: the timestamp of the allocation, and a fingerprint of its devices."""
    return f"{stamp} {_fingerprint(allocation)}"


def is_ours(claim: ResourceClaim) -> bool:
    """Whether the allocation of a claim is the one that we wrote.

    Servers before 1.36 drop the timestamp of an allocation. Then the devices are compared: an allocation
    by another allocator counts as ours if it has the same devices.
    """
    allocation, marked = claim.allocation, claim.metadata.annotations.get(ALLOCATED_AT)
    if allocation is None or marked is None:
        return False
    stamp, _, devices = marked.partition(" ")
    if allocation.allocation_timestamp is not None:
        return stamp == allocation.allocation_timestamp
    return devices == _fingerprint(allocation)


def _fingerprint(allocation: Allocation) -> str:
    """A hash of what every server keeps: which request got which device."""
    text = "\n".join(
        f"{result.request} {result.driver} {result.pool} {result.device}"
        for result in allocation.devices.results
    )
    return sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:16]
