"""Whether a decision made from one picture could be made from a later one."""

from collections.abc import Iterable

from reconciler.api.objects.meta import DeviceID
from reconciler.state.devices.snapshot.snapshot import Snapshot


def stands(
    node: str, devices: Iterable[DeviceID], before: Snapshot, now: Snapshot, *, whole: bool = False
) -> bool:
    """Whether devices chosen together from one picture can be had together in a later one, on the same node.

    Sound, not complete: their pools, the node and the classes must be the same as before, and what is held
    of the devices, of the counter sets that they draw from and beside them must not have changed. Devices
    elsewhere may have come free meanwhile: the choice is then one that was made earlier, no worse than that.
    `whole` asks that no slice at all has changed: where all devices were wanted, another one counts.
    """
    return (
        before.classes is now.classes
        and not (whole and before.fleet is not now.fleet)
        and before.topology.nodes.get(node) == now.topology.nodes.get(node)
        and all(_is_untouched(device, before, now) for device in devices)
    )


def _is_untouched(device: DeviceID, before: Snapshot, now: Snapshot) -> bool:
    at, place = before.fleet.index.get(device.pool_id), now.fleet.index.get(device.pool_id)
    if at is None or place is None or before.fleet.pools[at] is not now.fleet.pools[place]:
        return False
    rows = zip(before.fleet.rows_of(device), now.fleet.rows_of(device), strict=True)
    return all(_is_same(old, new, before, now) for old, new in rows)


def _is_same(old: int, new: int, before: Snapshot, now: Snapshot) -> bool:
    """Whether a device of an unchanged pool is as it was; its row may be another."""
    then, later = before.occupancy, now.occupancy
    return bool(
        then.held[old] == later.held[new]
        and then.sharing[old] == later.sharing[new]
        and then.fits[old] == later.fits[new]
        and (then.open is None or then.open[old]) == (later.open is None or later.open[new])
        and then.consumed.get(old) == later.consumed.get(new)
        # What a rule taints is not the pool's.
        and before.fleet.codes["taints"][old] == now.fleet.codes["taints"][new]
        and _left(old, before) == _left(new, now)
    )


def _left(row: int, world: Snapshot) -> list[list[int]]:
    """What is left of the counter sets that a device draws from. Columns of fleets differ in width."""
    sets = world.fleet.sets[row]
    amounts: list[list[int]] = world.occupancy.left[sets[sets >= 0]].tolist()
    width = max((at + 1 for of_set in amounts for at, left in enumerate(of_set) if left), default=0)
    return [of_set[:width] for of_set in amounts]
