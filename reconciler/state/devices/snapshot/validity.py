"""Whether a decision made on one snapshot is still possible on a later one."""

from collections.abc import Iterable

from reconciler.api.objects.claims import ALL, ResourceClaim
from reconciler.api.objects.meta import DeviceID
from reconciler.state.devices.snapshot.snapshot import Snapshot


def still_valid(
    node: str, devices: Iterable[DeviceID], before: Snapshot, now: Snapshot, *, whole: bool = False
) -> bool:
    """Whether devices chosen together on one snapshot can still be allocated on a later one, on that node.

    The check is sound but not complete. The pools of the devices, the node and the classes must be unchanged.
    The holds of the devices, their counter sets and their exclusion must be unchanged too. Other devices may
    have become free in between; the choice is then as good as an earlier one. `whole` requires that no slice
    has changed: a request for all devices must also get new ones.
    """
    return (
        before.classes is now.classes
        and not (whole and before.fleet is not now.fleet)
        and before.topology.nodes.get(node) == now.topology.nodes.get(node)
        and all(_is_untouched(device, before, now) for device in devices)
    )


def wants_all(claim: ResourceClaim) -> bool:
    """Whether a claim requests all devices that match, so that it must also get new ones."""
    return any(
        part.allocation_mode == ALL
        for request in claim.spec.devices.requests
        for part in (request.exactly, *request.first_available)
        if part is not None
    )


def _is_untouched(device: DeviceID, before: Snapshot, now: Snapshot) -> bool:
    at, place = before.fleet.index.get(device.pool_id), now.fleet.index.get(device.pool_id)
    if at is None or place is None or before.fleet.pools[at] is not now.fleet.pools[place]:
        return False
    rows = zip(before.fleet.rows_of(device), now.fleet.rows_of(device), strict=True)
    return all(_is_same(old, new, before, now) for old, new in rows)


def _is_same(old: int, new: int, before: Snapshot, now: Snapshot) -> bool:
    """Whether a device of an unchanged pool is unchanged. Its row may differ."""
    then, later = before.occupancy, now.occupancy
    return bool(
        then.held[old] == later.held[new]
        and then.sharing[old] == later.sharing[new]
        and then.fits[old] == later.fits[new]
        and (then.open is None or then.open[old]) == (later.open is None or later.open[new])
        and then.consumed.get(old) == later.consumed.get(new)
        # Taint rules change taints without changing the pool.
        and before.fleet.codes["taints"][old] == now.fleet.codes["taints"][new]
        and _left(old, before) == _left(new, now)
    )


def _left(row: int, snapshot: Snapshot) -> list[list[int]]:
    """What is left of a device's counter sets, without trailing zeros, since fleets differ in width."""
    sets = snapshot.fleet.sets[row]
    amounts: list[list[int]] = snapshot.occupancy.left[sets[sets >= 0]].tolist()
    width = max((at + 1 for of_set in amounts for at, left in enumerate(of_set) if left), default=0)
    return [of_set[:width] for of_set in amounts]
