"""Joint allocation in an explanation: which preferences keep claims pending, and what comes closest."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from reconciler.allocation.alignment.deciding import PreferenceKey
from reconciler.allocation.alignment.partitions import PartitionedRequest, partitioned_requests
from reconciler.allocation.alignment.preferences import has_preferences
from reconciler.allocation.dra.request_options import ParsedClaims
from reconciler.allocation.reasons.explanation import NearMiss
from reconciler.analysis.explain import partitions
from reconciler.analysis.explain.device_status import against
from reconciler.analysis.explain.funnel import Sieve
from reconciler.analysis.explain.groups import Masks
from reconciler.analysis.explain.near_misses import MOST_NODES
from reconciler.analysis.explain.places import Places
from reconciler.analysis.explain.relaxation import WhatIf
from reconciler.analysis.explain.tiers import Near, required
from reconciler.api.objects.plan import Reason
from reconciler.state.devices.snapshot.snapshot import Snapshot


@dataclass(frozen=True, slots=True, eq=False)
class Joint:
    """Wishes without which being met claims wait."""

    near: tuple[Near, ...] = ()
    partitioned: tuple[PartitionedRequest, ...] = ()
    failed: Near | None = None
    """The first alignment that refuses beside those before it"""

    def named(self) -> Iterator[tuple[str, PreferenceKey]]:
        """Each preference, in words and as its key."""
        for near in self.near:
            yield f"the alignment on {near.alignment.required}", (near.claim, near.number)
        for request in self.partitioned:
            yield f"the partition table for request {request.at[1]}", request.at


def joint_of(
    parsed: ParsedClaims, left: Masks, world: Snapshot, places: Places, reason: Reason | None, what_if: WhatIf
) -> Joint:
    """The preferences of claims that were refused for a reason, or not."""
    if not has_preferences(parsed.claims, world.classes):
        return Joint()
    near = required(parsed, left, world, places)
    partitioned = tuple(one for one in partitioned_requests(parsed.claims, world) if one.honored)
    joint = Joint(near, partitioned)
    if reason is not Reason.ALIGNMENT:
        return joint
    for number in range(1, len(near)):
        later = [preference for _, preference in Joint(near[number:], partitioned).named()]
        if what_if.fits_without(later) is False:
            return Joint(near, partitioned, near[number - 1])
    return Joint(near, partitioned, near[-1])


def misses(
    joint: Joint,
    left: Masks,
    sieves: Sequence[Sequence[Sieve]],
    world: Snapshot,
    places: Places,
) -> Iterator[NearMiss]:
    """The nodes that come closest to what refuses: an alignment, otherwise partitions."""
    if joint.failed is not None:
        near = joint.failed
        if near.countable:
            short = places.by_code(near.lacking(left), 1)
        else:
            short = np.zeros(len(places.names), dtype=np.int64)
        for at in np.argsort(short, kind="stable")[:MOST_NODES].tolist():
            told = near.best(places.names[at], left, world)
            once = "" if short[at] or not near.countable else ", but not all at once"
            yield NearMiss(places.names[at], (), told + once)
        return
    of = {(s.option.claim, s.option.request): s for of_slot in sieves for s in of_slot}
    short = np.zeros(len(places.names), dtype=np.int64)
    for request in joint.partitioned:
        short += places.by_code(partitions.lacking(request, of[request.at].left, places.codes), request.size)
    for at in np.argsort(short, kind="stable")[:MOST_NODES].tolist():
        parts = [_closest(request, of[request.at], places.code(at), world) for request in joint.partitioned]
        yield NearMiss(places.names[at], (), "; ".join(parts))


def _closest(request: PartitionedRequest, sieve: Sieve, code: int, world: Snapshot) -> str:
    def why(row: int) -> str:
        return against(row, sieve.option, sieve.gates, world)

    return f"request {request.at[1]}: {partitions.closest(request, sieve.left, code, why)}"
