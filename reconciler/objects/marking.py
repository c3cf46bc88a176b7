"""The mark by which we know an allocation of ours again, in this run or in one after it."""

from hashlib import sha256

from reconciler.objects.claims import ALLOCATED_AT, Allocation, ResourceClaim


def mark(stamp: str, allocation: Allocation) -> str:
    """What the annotation says: the timestamp of the allocation, and a fingerprint of its devices."""
    return f"{stamp} {_fingerprint(allocation)}"


def is_ours(claim: ResourceClaim) -> bool:
    """Whether what a claim holds is what was marked as ours.

    Before 1.36 servers do not keep the timestamp of an allocation, whoever writes it; the devices decide
    then. Another allocator that gives a claim the very devices that we gave it before passes for us.
    """
    held, said = claim.allocation, claim.metadata.annotations.get(ALLOCATED_AT)
    if held is None or said is None:
        return False
    stamp, _, devices = said.partition(" ")
    if held.allocation_timestamp is not None:
        return stamp == held.allocation_timestamp
    return devices == _fingerprint(held)


def _fingerprint(allocation: Allocation) -> str:
    """Of what every server keeps: which request got which device."""
    text = "\n".join(
        f"{result.request} {result.driver} {result.pool} {result.device}"
        for result in allocation.devices.results
    )
    return sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:16]
