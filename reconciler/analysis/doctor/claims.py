"""Checks the devices that claims hold. Source: AS-1, AS-6 and GRP-6."""

from collections.abc import Iterator

from reconciler.analysis.doctor import rules
from reconciler.analysis.doctor.findings import Finding, suggestion
from reconciler.analysis.doctor.input import DoctorInput
from reconciler.analysis.doctor.pools import is_complete, newest
from reconciler.api.manifests.bundle import Entry
from reconciler.api.objects.claims import AllocatedDevice, ResourceClaim
from reconciler.api.objects.meta import DeviceID, PoolID
from reconciler.state.devices.exclusion.modes import modes

Held = tuple[Entry, ResourceClaim, str, AllocatedDevice]


def _held(data: DoctorInput) -> Iterator[Held]:
    """Allocated devices, with claim and path; admin access does not reserve a device."""
    for entry, claim in data.of(ResourceClaim):
        results = claim.allocation.devices.results if claim.allocation is not None else ()
        for number, result in enumerate(results):
            if not result.admin_access:
                yield entry, claim, f"status.allocation.devices.results[{number}]", result


def doubly_held(data: DoctorInput) -> Iterator[Finding]:
    """Devices that two claims hold, at least one of them not as a share."""
    first: dict[DeviceID, tuple[ResourceClaim, AllocatedDevice]] = {}
    for entry, claim, path, result in _held(data):
        other, earlier = first.setdefault(result.id, (claim, result))
        if earlier is not result and not (result.share_id and earlier.share_id):
            what = f"{result.id} is also allocated to claim {other.key}"
            yield rules.DOUBLE_ALLOCATION.finding(entry, path, what)


def unknown_devices(data: DoctorInput) -> Iterator[Finding]:
    """Allocated devices that are not published. Only for complete pools."""
    published = {
        pool: {device.name for _, source in slices for device in source.spec.devices}
        for pool, slices in data.pools().items()
        if is_complete(newest(slices))
    }
    for entry, _, path, result in _held(data):
        names = published.get(PoolID(result.driver, result.pool))
        if names is not None and result.device not in names:
            what = f"{result.id} is not published{suggestion(result.device, names)}"
            yield rules.UNKNOWN_DEVICE.finding(entry, f"{path}.device", what)


def at_odds(data: DoctorInput) -> Iterator[Finding]:
    """Allocated devices that exclude each other. The finding is at the slice of one of them."""
    for mode in modes(data.snapshot):
        for text in mode.conflicts:
            row = data.snapshot.fleet.rows_of(mode.held[0].device)[0]
            entry, path, _ = data.device(row)
            yield rules.HELD_AT_ODDS.finding(entry, path, f"{mode.pool} {mode.scope}: {text}")
