"""Two claims that hold one device, and which of them lets go. Source: CO-7.

Whoever writes second is told nothing by the API. So the loser is found afterwards, from what both claims
say, and always the same one by whoever looks: a reserved claim stays, of others the older one.
"""

from dataclasses import dataclass

from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.marking import is_ours
from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.state.devices.occupancy.ledger import Holder
from reconciler.state.store import Store


@dataclass(frozen=True, slots=True)
class Lost:
    """A claim should let go of what it holds, since another one holds it by better right."""

    device: DeviceID
    winner: ObjectKey

    def __str__(self) -> str:
        return f"{self.device} is held by claim {self.winner} by better right"


def is_raced(device: DeviceID, store: Store) -> bool:
    """Whether several claims hold a device of which at least one holds it alone."""
    state = store.state(device)
    return len(state.holders) > 1 and bool(state.alone)


def written_by_us(claim: ResourceClaim) -> bool:
    """Whether we wrote the allocation that a claim holds, in this run or in one before."""
    return is_ours(claim)


def lost(claim: ResourceClaim, store: Store) -> Lost | None:
    """Whether a claim lost a device, as far as we know. Only allocations of ours that nobody uses can."""
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
                and rival.allocation is not None  # one of ours on its way is not on the server yet
                and (rival.status.reserved_for or _age(rival) < _age(claim))
            ):
                return Lost(result.id, rival.key)
    return None


def _age(claim: ResourceClaim) -> tuple[str, str]:
    """Smaller is older. Without a timestamp it counts as oldest; uids settle what is left."""
    stamp = claim.allocation.allocation_timestamp if claim.allocation is not None else None
    return stamp or "", claim.metadata.uid
