"""Devices that two claims hold although one of them holds it alone.

The API does not prevent it: another allocator, or a reconciler that was cut off from the cluster, can
do it at any time. Nothing is undone here; somebody has to look.
"""

from collections.abc import Iterator

from reconciler.inventory.store import Store
from reconciler.objects.claims import ResourceClaim
from reconciler.objects.meta import DeviceID, ObjectKey
from reconciler.reconcile.decisions import HeldTwice, Tell


class Audit:
    """Looks at every allocation that comes in, and tells of each double one once."""

    def __init__(self, store: Store, tell: Tell) -> None:
        self._store = store
        self._tell = tell
        self._told: dict[DeviceID, frozenset[ObjectKey]] = {}

    def look(self, claim: ResourceClaim) -> None:
        """Check the devices of a claim that is part of the picture already."""
        for device in _held(claim):
            claims = frozenset(holder.claim for holder in self._store.holders(device))
            if len(claims) > 1 and any(device in self._alone(key) for key in claims):
                if self._told.get(device) != claims:
                    self._told[device] = claims
                    self._tell(HeldTwice(device, tuple(sorted(claims))))
            else:
                self._told.pop(device, None)

    def _alone(self, key: ObjectKey) -> set[DeviceID]:
        claim = self._store.claims.get(key)
        plan = self._store.assumed(claim.metadata.uid) if claim is not None else None
        allocation = plan.allocation if plan else claim.allocation if claim else None
        results = allocation.devices.results if allocation else ()
        return {result.id for result in results if not result.admin_access and not result.share_id}


def _held(claim: ResourceClaim) -> Iterator[DeviceID]:
    results = claim.allocation.devices.results if claim.allocation else ()
    return (result.id for result in results if not result.admin_access)
