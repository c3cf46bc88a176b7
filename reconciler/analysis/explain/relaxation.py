"""Finds which requests or requirements block claims: asks the allocator again without some of them."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

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


class Conflict(NamedTuple):
    """Requests and constraints that cannot hold together, though all but any one of them can."""

    requests: tuple[RequestName, ...] = ()
    constraints: tuple[tuple[ObjectKey, int], ...] = ()
    """Of each: the claim, and the number in the claim"""


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
        return self._answer(
            list(self._only(Conflict(tuple(requests), self._every.constraints))), self._nodes, snapshot
        )

    @property
    def _every(self) -> Conflict:
        claims = self._claims
        return Conflict(
            tuple([(claim.key, r.name) for claim in claims for r in claim.spec.devices.requests]),
            tuple([(c.key, number) for c in claims for number in range(len(c.spec.devices.constraints))]),
        )

    def conflict(self, among: Conflict | None = None, node: str = "") -> Conflict:
        """What cannot hold together, on one node or on all; found by leaving out one part after another.

        Empty for more than MOST_REQUESTS. `among` is known to be too much.
        """
        kept, nodes = among or self._every, (node,) if node else self._nodes
        if len(kept.requests) > MOST_REQUESTS:
            return Conflict()
        for request in kept.requests:
            fewer = kept._replace(requests=tuple([one for one in kept.requests if one != request]))
            if self._fits(list(self._only(fewer)), nodes) is False:
                kept = fewer
        kept = kept._replace(
            constraints=tuple([one for one in kept.constraints if self._concerns(one, kept)])
        )
        for constraint in kept.constraints[:MOST_REQUESTS]:
            fewer = kept._replace(constraints=tuple([one for one in kept.constraints if one != constraint]))
            if self._fits(list(self._only(fewer)), nodes) is False:
                kept = fewer
        return kept

    def _concerns(self, constraint: tuple[ObjectKey, int], kept: Conflict) -> bool:
        key, number = constraint
        claim = next(claim for claim in self._claims if claim.key == key)
        named = [name.partition("/")[0] for name in claim.spec.devices.constraints[number].requests]
        return any(of == key and (not named or name in named) for of, name in kept.requests)

    def described(self, conflict: Conflict) -> Iterator[tuple[ObjectKey, str]]:
        """The claim of each constraint, and `distinct d/gpu` or `match d/gpu`."""
        for claim in self._claims:
            for number, one in enumerate(claim.spec.devices.constraints):
                if (claim.key, number) in conflict.constraints:
                    kind = "match" if one.match_attribute is not None else "distinct"
                    yield claim.key, f"{kind} {one.match_attribute or one.distinct_attribute}"

    def largest_count(self, conflict: Conflict, node: str) -> tuple[str, int, int] | None:
        """The largest request of a conflict, how many devices fit on a node beside the others, and how many
        it wants; None if it wants 1 or has alternatives.
        """
        claims = list(self._only(conflict))
        exact = [
            (r.exactly.wanted, -at, r)
            for at, claim in enumerate(claims)
            for r in claim.spec.devices.requests
            if r.exactly is not None
        ]
        wanted, place, request = max(exact, key=lambda one: one[:2], default=(1, 0, None))
        if request is None or request.exactly is None or wanted < 2:
            return None
        fits, too_many, at = 0, wanted, -place
        while too_many - fits > 1:
            middle = (fits + too_many) // 2
            exactly = request.exactly.model_copy(update={"count": middle})
            fewer = request.model_copy(update={"exactly": exactly})
            others = tuple([fewer if r is request else r for r in claims[at].spec.devices.requests])
            alone = narrowed(_with(claims[at], others, claims[at].spec.devices.constraints), ())
            asked = [*claims[:at], alone, *claims[at + 1 :]]
            if self._fits(asked, (node,), [(at, request.name)]) is True:
                fits = middle
            else:
                too_many = middle
        return request.name, fits, wanted

    def _only(self, kept: Conflict) -> Iterator[ResourceClaim]:
        for claim in self._claims:
            requests = tuple(r for r in claim.spec.devices.requests if (claim.key, r.name) in kept.requests)
            if requests:
                every = enumerate(claim.spec.devices.constraints)
                constraints = tuple([one for number, one in every if (claim.key, number) in kept.constraints])
                fewer = _with(claim, requests, constraints)
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
