"""Determines the shard of a claim from the claim and its classes only, not from devices.

So of any shards that do not overlap, at most one answers "ours", regardless of the slices that each has seen.
A claim that holds devices belongs to the shard of the first one.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple

from reconciler.api.objects.claims import DeviceClass, ResourceClaim
from reconciler.api.objects.meta import PoolID
from reconciler.api.objects.requests import ALL, DeviceSubRequest
from reconciler.cel.drivers import drivers_of
from reconciler.ha.shards.shard import Shard

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
