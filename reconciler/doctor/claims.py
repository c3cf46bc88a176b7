"""What claims hold, seen together. Source: AS-1, AS-6 and GRP-6."""

from collections.abc import Iterator

from reconciler.doctor import rules
from reconciler.doctor.findings import Finding, nearest
from reconciler.doctor.picture import Picture
from reconciler.doctor.pools import is_complete, newest
from reconciler.inventory.modes import modes
from reconciler.manifests.bundle import Entry
from reconciler.objects.claims import AllocatedDevice, ResourceClaim
from reconciler.objects.meta import DeviceID, PoolID

Held = tuple[Entry, ResourceClaim, str, AllocatedDevice]


def _held(picture: Picture) -> Iterator[Held]:
    """Devices that are held, with claim and path; administrative access holds nothing."""
    for entry, claim in picture.of(ResourceClaim):
        results = claim.allocation.devices.results if claim.allocation is not None else ()
        for number, result in enumerate(results):
            if not result.admin_access:
                yield entry, claim, f"status.allocation.devices.results[{number}]", result


def doubly_held(picture: Picture) -> Iterator[Finding]:
    """Devices held twice, at least once not as a share."""
    first: dict[DeviceID, tuple[ResourceClaim, AllocatedDevice]] = {}
    for entry, claim, path, result in _held(picture):
        other, earlier = first.setdefault(result.id, (claim, result))
        if earlier is not result and not (result.share_id and earlier.share_id):
            what = f"{result.id} is held by claim {other.key} too"
            yield rules.DOUBLE_ALLOCATION.found(entry, path, what)


def unknown_devices(picture: Picture) -> Iterator[Finding]:
    """Devices that are held and not published, where the whole pool is there to tell."""
    published = {
        pool: {device.name for _, source in slices for device in source.spec.devices}
        for pool, slices in picture.pools().items()
        if is_complete(newest(slices))
    }
    for entry, _, path, result in _held(picture):
        names = published.get(PoolID(result.driver, result.pool))
        if names is not None and result.device not in names:
            what = f"{result.id} is not published{nearest(result.device, names)}"
            yield rules.UNKNOWN_DEVICE.found(entry, f"{path}.device", what)


def at_odds(picture: Picture) -> Iterator[Finding]:
    """Devices that are held side by side and exclude one another, told at the slice of one of them."""
    for mode in modes(picture.world):
        for text in mode.conflicts:
            row = picture.world.fleet.rows_of(mode.held[0].device)[0]
            entry, path, _ = picture.device(row)
            yield rules.HELD_AT_ODDS.found(entry, path, f"{mode.pool} {mode.scope}: {text}")
