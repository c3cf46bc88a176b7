"""What would have to go so that the rest can be met: asked of the allocator, a bounded number of times."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice

from reconciler.allocation.alignment.deciding import PreferenceKey, decide
from reconciler.allocation.alignment.narrowing import narrowed
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.plan import Granted, Reason
from reconciler.api.objects.requests import DeviceRequest
from reconciler.state.devices.snapshot.snapshot import Snapshot

MOST_CONSTRAINTS = 8
MOST_REQUESTS = 32
"""Claims with more are not taken apart: each part is another search."""
STEPS = 2_000
"""Devices tried on one node in one search."""
EFFORT = 50_000
"""Devices tried in all searches of an explanation that somebody waits for."""

Named = tuple[ObjectKey, str]


class WhatIf:
    """Variations of claims that were refused, asked of the same picture."""

    def __init__(
        self,
        claims: Sequence[ResourceClaim],
        world: Snapshot,
        nodes: Collection[str] | None,
        effort: int = EFFORT,
    ) -> None:
        """`effort` bounds the devices tried in all. What is asked beyond it has no answer."""
        self._claims = claims
        self._world = world
        self._nodes = nodes
        self._left = effort

    def guilty(self) -> Iterator[str]:
        """Attributes whose constraint alone stands in the way."""
        left = MOST_CONSTRAINTS
        for at, claim in enumerate(self._claims):
            constraints = claim.spec.devices.constraints
            for number, constraint in enumerate(constraints):
                if not left:
                    return
                left -= 1
                others = (*constraints[:number], *constraints[number + 1 :])
                changed = _with(claim, claim.spec.devices.requests, others)
                if self._fits([*self._claims[:at], changed, *self._claims[at + 1 :]], self._nodes) is True:
                    yield constraint.match_attribute or constraint.distinct_attribute or ""

    def lifted(self, named: Iterable[tuple[str, PreferenceKey]]) -> Iterator[str]:
        """Wishes, in words, of which each alone stands in the way."""
        for words, preference in islice(named, MOST_CONSTRAINTS):
            if self.fits_without([preference]) is True:
                yield words

    def fits_without(self, preferences: Collection[PreferenceKey]) -> bool | None:
        """Whether the claims could be had if some preferences were not there; None if nobody knows."""
        return self._fits(self._claims, self._nodes, preferences)

    def conflict(self) -> tuple[Named, ...]:
        """Requests that cannot be met together, though any of them could be left out to meet the others.

        Empty if there are too many requests.
        """
        kept = [(claim.key, r.name) for claim in self._claims for r in claim.spec.devices.requests]
        if len(kept) > MOST_REQUESTS:
            return ()
        for one in list(kept):
            fewer = [other for other in kept if other != one]
            if self._fits(list(self._only(fewer)), self._nodes) is False:
                kept = fewer
        return tuple(kept)

    def most(self, one: Named, node: str) -> int:
        """How many devices of a request a node could give at once, without the other requests."""
        claim = next(claim for claim in self._claims if claim.key == one[0])
        request = next(r for r in claim.spec.devices.requests if r.name == one[1])
        if request.exactly is None:
            return 0
        fine, bad = 0, request.exactly.wanted
        while bad - fine > 1:
            middle = (fine + bad) // 2
            exactly = request.exactly.model_copy(update={"count": middle})
            fewer = request.model_copy(update={"exactly": exactly})
            alone = narrowed(_with(claim, (fewer,), claim.spec.devices.constraints), ())
            if self._fits([alone], (node,), [(0, request.name)]) is True:
                fine = middle
            else:
                bad = middle
        return fine

    def _only(self, names: Collection[Named]) -> Iterator[ResourceClaim]:
        for claim in self._claims:
            requests = tuple(r for r in claim.spec.devices.requests if (claim.key, r.name) in names)
            if requests:
                fewer = _with(claim, requests, claim.spec.devices.constraints)
                yield narrowed(fewer, {request.name for request in requests})

    def _fits(
        self,
        claims: Sequence[ResourceClaim],
        nodes: Collection[str] | None,
        without: Collection[PreferenceKey] = (),
    ) -> bool | None:
        """None if the search gave up, of which nothing follows."""
        if self._left <= 0:
            return None
        steps = min(STEPS, self._left)
        answer = decide(claims, self._world, nodes=nodes, steps=steps, without=without)
        self._left -= answer.steps + 1
        if isinstance(answer, Granted):
            return True
        return None if answer.reason is Reason.GAVE_UP else False


def _with(claim: ResourceClaim, requests: tuple[DeviceRequest, ...], constraints: object) -> ResourceClaim:
    devices = claim.spec.devices.model_copy(update={"requests": requests, "constraints": constraints})
    return claim.model_copy(update={"spec": claim.spec.model_copy(update={"devices": devices})})
