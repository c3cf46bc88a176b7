"""Decides which of two claims that hold the same device is freed. Source: CO-7.

The API does not tell the second writer. So the loser is determined afterwards from both claims, and every
replica finds the same one: a reserved claim stays, otherwise the older one.
"""

from msgspec import Struct

from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.marking import is_ours
from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.state.devices.occupancy.ledger import Holder
from reconciler.state.store import Store


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


def written_by_us(claim: ResourceClaim) -> bool:
    """Whether we wrote the allocation of a claim, in this run or an earlier one."""
    return is_ours(claim)


def lost_device(claim: ResourceClaim, store: Store) -> LostDevice | None:
    """The device that a claim lost, if any. Only allocations of ours that are not in use can lose."""
    if claim.status.reserved_for or not written_by_us(claim):
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
