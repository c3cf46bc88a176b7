"""Finds which requests or requirements block claims: asks the allocator again without some of them."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice

from reconciler.allocation.alignment.deciding import PreferenceKey, decide
from reconciler.allocation.alignment.preferences import narrowed
from reconciler.api.objects.claims import DeviceRequest, ResourceClaim
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.plan import Granted, Reason, Unsatisfied
from reconciler.state.devices.snapshot import Snapshot

MOST_CONSTRAINTS = 8
MOST_REQUESTS = 32
"""Claims with more requests are not tested in parts, because each part needs a search."""
STEPS = 2_000
"""Maximum devices tried on one node in one search."""
EFFORT = 50_000
"""Maximum devices tried in all searches of one explanation, if a user waits for it."""

RequestName = tuple[ObjectKey, str]


class Relaxation:
    """Asks the allocator about variations of refused claims, on the same snapshot."""

    def __init__(
        self,
        claims: Sequence[ResourceClaim],
        snapshot: Snapshot,
        nodes: Collection[str] | None,
        effort: int = EFFORT,
    ) -> None:
        """`effort` limits the devices tried in total. After that, all answers are unknown."""
        self._claims = claims
        self._world = snapshot
        self._nodes = nodes
        self._left = effort

    def blocking_constraints(self) -> Iterator[str]:
        """Attributes of the constraints that alone block the claims."""
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

    def blocking_preferences(self, described: Iterable[tuple[str, PreferenceKey]]) -> Iterator[str]:
        """Texts of the joint allocation requirements that alone block the claims."""
        for text, preference in islice(described, MOST_CONSTRAINTS):
            if self.fits_without([preference]) is True:
                yield text

    def fits_without(self, preference: Collection[PreferenceKey]) -> bool | None:
        """Whether the claims fit if some requirements are ignored; None if unknown."""
        return self._fits(self._claims, self._nodes, preference)

    @property
    def has_effort(self) -> bool:
        """Whether more devices may be tried. Without it, answers are unknown."""
        return self._left > 0

    def answer_on(
        self, snapshot: Snapshot, requests: Collection[RequestName]
    ) -> Granted | Unsatisfied | None:
        """The answer to some of the requests on another snapshot; None if unknown."""
        return self._answer(list(self._only(requests)), self._nodes, snapshot)

    def conflict(self) -> tuple[RequestName, ...]:
        """A minimal set of requests that cannot be allocated together; empty for more than MOST_REQUESTS."""
        kept = [(claim.key, r.name) for claim in self._claims for r in claim.spec.devices.requests]
        if len(kept) > MOST_REQUESTS:
            return ()
        for request in list(kept):
            fewer = [other for other in kept if other != request]
            if self._fits(list(self._only(fewer)), self._nodes) is False:
                kept = fewer
        return tuple(kept)

    def largest_count(self, name: RequestName, node: str) -> int:
        """How many devices of a request fit on a node together, without the other requests."""
        claim = next(claim for claim in self._claims if claim.key == name[0])
        request = next(r for r in claim.spec.devices.requests if r.name == name[1])
        if request.exactly is None:
            return 0
        fits, too_many = 0, request.exactly.wanted
        while too_many - fits > 1:
            middle = (fits + too_many) // 2
            exactly = request.exactly.model_copy(update={"count": middle})
            fewer = request.model_copy(update={"exactly": exactly})
            alone = narrowed(_with(claim, (fewer,), claim.spec.devices.constraints), ())
            if self._fits([alone], (node,), [(0, request.name)]) is True:
                fits = middle
            else:
                too_many = middle
        return fits

    def _only(self, names: Collection[RequestName]) -> Iterator[ResourceClaim]:
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
        """None if the search gave up: the answer is unknown."""
        answer = self._answer(claims, nodes, self._world, without)
        if answer is None or isinstance(answer, Granted):
            return None if answer is None else True
        return None if answer.reason is Reason.GAVE_UP else False

    def _answer(
        self,
        claims: Sequence[ResourceClaim],
        nodes: Collection[str] | None,
        snapshot: Snapshot,
        without: Collection[PreferenceKey] = (),
    ) -> Granted | Unsatisfied | None:
        """None if no effort is left."""
        if self._left <= 0:
            return None
        answer = decide(claims, snapshot, nodes=nodes, steps=min(STEPS, self._left), without=without)
        self._left -= answer.steps + 1
        return answer


def _with(claim: ResourceClaim, requests: tuple[DeviceRequest, ...], constraints: object) -> ResourceClaim:
    devices = claim.spec.devices.model_copy(update={"requests": requests, "constraints": constraints})
    return claim.model_copy(update={"spec": claim.spec.model_copy(update={"devices": devices})})
