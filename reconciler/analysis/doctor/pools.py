"""Checks that the slices of a pool are complete and consistent. Source: POOL-3 to POOL-7."""

from collections.abc import Iterator

from reconciler.analysis.doctor import rules
from reconciler.analysis.doctor.findings import Finding
from reconciler.analysis.doctor.input import DoctorInput, Slices
from reconciler.api.objects.meta import PoolID


def generations(slices: Slices) -> dict[int, Slices]:
    """The slices of each generation of one pool."""
    found: dict[int, Slices] = {}
    for entry, source in slices:
        found.setdefault(source.spec.pool.generation, []).append((entry, source))
    return found


def newest(slices: Slices) -> Slices:
    """The slices of the newest generation of one pool."""
    return max(generations(slices).items())[1]


def is_complete(slices: Slices) -> bool:
    """Whether the number of slices of one generation equals resourceSliceCount of each."""
    return all(source.spec.pool.resource_slice_count == len(slices) for _, source in slices)


def incomplete(data: DoctorInput) -> Iterator[Finding]:
    """Pools with too few slices, or too many."""
    for pool, slices in data.pools().items():
        current = newest(slices)
        entry, first = current[0]
        wanted = first.spec.pool.resource_slice_count
        if len(current) != wanted:
            generation = first.spec.pool.generation
            what = f"pool {pool} has {len(current)} of {wanted} slices of generation {generation}"
            yield rules.POOL_INCOMPLETE.finding(entry, "spec.pool.resourceSliceCount", what)


def obsolete(data: DoctorInput) -> Iterator[Finding]:
    """Slices of an older generation than the newest of their pool."""
    for pool, slices in data.pools().items():
        latest = max(source.spec.pool.generation for _, source in slices)
        for entry, source in slices:
            generation = source.spec.pool.generation
            if generation < latest:
                what = f"pool {pool} is at generation {latest}, but this slice is at {generation}"
                yield rules.POOL_OBSOLETE.finding(entry, "spec.pool.generation", what)


def disagreeing(data: DoctorInput) -> Iterator[Finding]:
    """Slices of one generation with different resourceSliceCount."""
    for pool, slices in data.pools().items():
        for peers in generations(slices).values():
            first, wanted = peers[0][0], peers[0][1].spec.pool.resource_slice_count
            for entry, source in peers[1:]:
                count = source.spec.pool.resource_slice_count
                if count != wanted:
                    what = f"pool {pool}: the count is {count}, but {wanted} in {first.origin}"
                    yield rules.POOL_DISAGREES.finding(entry, "spec.pool.resourceSliceCount", what)


def duplicate_devices(data: DoctorInput) -> Iterator[Finding]:
    """Duplicate device names in one generation of a pool, on one node or on two."""
    for pool, slices in data.pools().items():
        for peers in generations(slices).values():
            yield from _duplicates(pool, peers)


def _duplicates(pool: PoolID, peers: Slices) -> Iterator[Finding]:
    first: dict[str, tuple[int, int, str]] = {}
    for number, (entry, source) in enumerate(peers):
        for index, device in enumerate(source.spec.devices):
            here = number, index, source.spec.node_name or device.node_name or ""
            earlier = first.setdefault(device.name, here)
            if earlier == here:
                continue
            field, node, other = f"spec.devices[{index}].name", here[2], earlier[2]
            if node and other and node != other:
                what = f"{pool}/{device.name} is on node {other} and on node {node}"
                yield rules.DEVICE_ON_TWO_NODES.finding(entry, field, what)
            else:
                place = (
                    "twice in this slice"
                    if earlier[0] == number
                    else f"also in slice {peers[earlier[0]][1].key}"
                )
                yield rules.DUPLICATE_DEVICE.finding(entry, field, f"{pool}/{device.name} is {place}")
