"""Shards: the part of a fleet that one process owns, the slices that it sees, and the claims that belong to
it.

A shard is drivers, pools, or both. Leases ensure that the shards of two processes never overlap. The
shard of a claim follows from the claim and its classes only, not from devices: of any shards that do not
overlap, at most one answers "ours", whichever slices each has seen. A claim that holds devices belongs
to the shard of the first one.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from hashlib import sha256
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from reconciler.api.objects.changes import Change, Changed, Removed, Replaced
from reconciler.api.objects.claims import ALL, DeviceClass, DeviceSubRequest, ResourceClaim
from reconciler.api.objects.meta import ApiObject, PoolID
from reconciler.api.objects.slices import ResourceSlice
from reconciler.cel.reads import drivers_of
from reconciler.errors import Rejected

_NAME = re.compile(r"[a-z0-9][-a-z0-9./]*")
DRIVER, PREFIX = "driver", "pool-prefix"
LEASE = "dra-reconciler"
"""Name of the Lease for the whole fleet, and prefix of those for shards"""


class Shard(Struct, frozen=True):
    """Pools, selected by drivers and by prefixes of pool names. An empty set means all."""

    drivers: frozenset[str] = frozenset()
    prefixes: frozenset[str] = frozenset()

    @property
    def whole(self) -> bool:
        """Whether it is the whole fleet."""
        return not (self.drivers or self.prefixes)

    @property
    def lease(self) -> str:
        """The name of its Lease, which depends on the definition but not on its spelling."""
        return LEASE if self.whole else f"{LEASE}-{sha256(str(self).encode()).hexdigest()[:10]}"

    def owns(self, pool: PoolID) -> bool:
        """Whether it contains a pool."""
        return (not self.drivers or pool.driver in self.drivers) and (
            not self.prefixes or pool.pool.startswith(tuple(self.prefixes))
        )

    def overlaps(self, other: "Shard") -> bool:
        """Whether a pool may belong to both."""
        drivers = not self.drivers or not other.drivers or bool(self.drivers & other.drivers)
        return drivers and (
            not self.prefixes
            or not other.prefixes
            or any(a.startswith(b) or b.startswith(a) for a in self.prefixes for b in other.prefixes)
        )

    def __str__(self) -> str:
        """As in settings and Leases: `driver=a,pool-prefix=b`. Empty for the whole fleet."""
        parts = [f"{DRIVER}={name}" for name in sorted(self.drivers)]
        return ",".join(parts + [f"{PREFIX}={name}" for name in sorted(self.prefixes)])


WHOLE = Shard()


def parse_shard(text: str) -> Shard:
    """The shard that a text defines. Raises Rejected."""
    found: dict[str, set[str]] = {DRIVER: set(), PREFIX: set()}
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, _, value = part.partition("=")
        if key not in found or not _NAME.fullmatch(value):
            raise Rejected(
                f"shard {text!r}: {part!r} is neither {DRIVER}=NAME nor {PREFIX}=TEXT; "
                "give several separated by commas"
            )
        found[key].add(value)
    return Shard(frozenset(found[DRIVER]), frozenset(_shortest(found[PREFIX])))


def _shortest(prefixes: Iterable[str]) -> list[str]:
    """The prefixes that no other one covers."""
    kept: list[str] = []
    for prefix in sorted(prefixes):
        if not kept or not prefix.startswith(kept[-1]):
            kept.append(prefix)
    return kept


def within_shard(change: Change, shard: Shard) -> Change:
    """The change as a shard sees it: slices of other pools count as removed."""
    if shard.whole:
        return change
    match change:
        case Changed(kind=kind, object=ResourceSlice() as found) if not shard.owns(found.pool_id):
            return Removed(kind, found.key, stating=found.spec.driver if _states(found) else "")
        case Replaced(kind="ResourceSlice", objects=objects):
            return replace(
                change,
                objects=tuple(one for one in objects if not _is_foreign(one, shard)),
                stating=tuple((one.key.name, one.spec.driver) for one in _stating(objects, shard)),
            )
    return change


def _is_foreign(thing: ApiObject, shard: Shard) -> bool:
    return isinstance(thing, ResourceSlice) and not shard.owns(thing.pool_id)


def _stating(objects: Iterable[ApiObject], shard: Shard) -> Iterator[ResourceSlice]:
    """The slices of other shards whose devices say `compatibleOnlyWith`."""
    for thing in objects:
        if isinstance(thing, ResourceSlice) and _is_foreign(thing, shard) and _states(thing):
            yield thing


def _states(source: ResourceSlice) -> bool:
    return any(device.compatible_only_with is not None for device in source.spec.devices)


POOLS = "dra-reconciler.io/pool-prefix"
"""Annotation of a claim: selects a shard by a prefix of its pool names. Any pool of that shard may serve the
claim. Needed only if shards differ in pools."""


class Side(StrEnum):
    """The place of a claim, as one shard sees it."""

    OURS = "ours"
    ELSEWHERE = "elsewhere"
    """No device of this shard can serve any part of it"""
    SEVERAL = "several"
    """It needs, or may need, devices of several shards"""


class Membership(NamedTuple):
    """A side, and why it is SEVERAL."""

    side: Side
    why: str = ""


OURS, _ELSEWHERE = Membership(Side.OURS), Membership(Side.ELSEWHERE)


def membership(claim: ResourceClaim, shard: Shard, classes: Mapping[str, DeviceClass]) -> Membership:
    """Whether a claim belongs to a shard."""
    held = claim.allocation.devices.results if claim.allocation is not None else ()
    if held:
        return OURS if shard.owns(PoolID(held[0].driver, held[0].pool)) else _ELSEWHERE
    parts = [_by_driver(claim, shard, classes), _by_pool(claim, shard)]
    for side in (Side.ELSEWHERE, Side.SEVERAL):
        for part in parts:
            if part.side is side:
                return part
    return OURS


def _by_driver(claim: ResourceClaim, shard: Shard, classes: Mapping[str, DeviceClass]) -> Membership:
    if not shard.drivers:
        return OURS
    inside = outside = ""
    for name, part in _parts(claim):
        found = _drivers(part, classes)
        if not found:
            there = "" if part.device_class_name in classes else ", which does not exist"
            return Membership(
                Side.SEVERAL,
                f"neither request {name} nor its class {part.device_class_name}{there} selects a driver; add "
                'a selector such as `device.driver == "NAME"`',
            )
        if found & shard.drivers:
            inside = name
        if found - shard.drivers:
            outside = name
    if inside and outside:
        return Membership(Side.SEVERAL, f"request {outside} may need devices of drivers of another shard")
    if outside:
        return _ELSEWHERE
    return OURS if inside else Membership(Side.SEVERAL, "it has no requests")


def _by_pool(claim: ResourceClaim, shard: Shard) -> Membership:
    if not shard.prefixes:
        return OURS
    wanted = claim.metadata.annotations.get(POOLS)
    if wanted is None:
        return Membership(Side.SEVERAL, f"shards differ in pools, and the claim has no annotation {POOLS}")
    if not any(wanted.startswith(ours) for ours in shard.prefixes):
        if any(ours.startswith(wanted) for ours in shard.prefixes):
            return Membership(Side.SEVERAL, f"its annotation {POOLS}: {wanted} matches several shards")
        return _ELSEWHERE
    for name, part in _parts(claim):
        if part.allocation_mode == ALL:  # other shards may have more matching pools
            return Membership(Side.SEVERAL, f"request {name} is for all devices, and shards differ in pools")
    return OURS


def _parts(claim: ResourceClaim) -> Iterator[tuple[str, DeviceSubRequest]]:
    for request in claim.spec.devices.requests:
        if request.exactly is not None:
            yield request.name, request.exactly
        for alternative in request.first_available:
            yield f"{request.name}/{alternative.name}", alternative


def _drivers(part: DeviceSubRequest, classes: Mapping[str, DeviceClass]) -> frozenset[str] | None:
    """The drivers that can serve a request, judging by its selectors and its class."""
    found = classes.get(part.device_class_name)
    selectors = (*(found.spec.selectors if found is not None else ()), *part.selectors)
    named = [drivers_of(one.cel.expression) for one in selectors if one.cel is not None]
    known = [one for one in named if one is not None]
    return frozenset.intersection(*known) if known else None
