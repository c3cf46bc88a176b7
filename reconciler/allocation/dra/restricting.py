"""Restricts all requests of some claims to the same devices."""

from collections.abc import Iterable, Sequence

from reconciler.allocation.dra.node_attempt import Only
from reconciler.allocation.dra.request_options import read_claims
from reconciler.api.objects.claims import ResourceClaim
from reconciler.state.devices.snapshot.snapshot import Snapshot


def within(claims: Sequence[ResourceClaim], rows: Iterable[int], snapshot: Snapshot) -> Only:
    """Only these rows of the fleet, for each request. Raises Fatal if the claims are invalid."""
    chosen = frozenset(rows)
    slots = read_claims(claims, snapshot.classes, snapshot.rules).slots
    return {(slot.claim, slot.options[0].request): chosen for slot in slots}
