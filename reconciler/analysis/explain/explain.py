"""The whole explanation: funnels from masks, what lacks where, and what the allocator says to less."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from reconciler.allocation.alignment import decide
from reconciler.allocation.dra.claim_shapes import claim_shape
from reconciler.allocation.dra.refusal import Fatal
from reconciler.allocation.dra.request_options import ParsedClaims, read_claims
from reconciler.allocation.reasons.explanation import Explanation, NearMiss, Request
from reconciler.allocation.reasons.kinds import Kind
from reconciler.allocation.reasons.reasons import remedy
from reconciler.analysis.explain.alignment import Joint, joint_of
from reconciler.analysis.explain.alignment import misses as joint_misses
from reconciler.analysis.explain.constraints import Tied, tie
from reconciler.analysis.explain.funnel import Sieve, funnel, sift
from reconciler.analysis.explain.joint_gates import Beyond
from reconciler.analysis.explain.minimal_sets import smallest_sets
from reconciler.analysis.explain.near_misses import near_misses
from reconciler.analysis.explain.places import Places
from reconciler.analysis.explain.relaxation import EFFORT, Named, WhatIf
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.plan import Granted, Reason, Unsatisfied
from reconciler.errors import Malformed
from reconciler.state.devices.snapshot.snapshot import Snapshot

STEPS = 10_000
"""Devices tried for the answer itself, where none is given."""
MOST_SELECTORS = 256
"""Different selectors of what is explained request by request."""
_JOINT = {Reason.ALIGNMENT: Kind.ALIGNMENT, Reason.PARTITION: Kind.PARTITION}
"""Where the preferences refuse: the gate"""


def explain(
    claims: Sequence[ResourceClaim],
    world: Snapshot,
    *,
    nodes: Collection[str] | None = None,
    answer: Granted | Unsatisfied | None = None,
    steps: int = STEPS,
    effort: int = EFFORT,
) -> Explanation:
    """Why claims that are decided together can or cannot be allocated on one of `nodes`; None is all nodes.

    `answer` is what the allocator said to the same question; it is asked, with `steps`, if that is not
    given. Costs some passes over the fleet, and up to a few dozen searches in which `effort` devices are
    tried in all, so it is not for the path of a decision.
    """
    if answer is None:
        answer = decide(claims, world, nodes=nodes, steps=steps)
    places = Places(world, nodes)
    told = Explanation(
        claims=tuple(claim.key for claim in claims),
        node=answer.node if isinstance(answer, Granted) else "",
        reason="" if isinstance(answer, Granted) else str(answer.reason),
        message="" if isinstance(answer, Granted) else answer.message,
        remedy="" if isinstance(answer, Granted) else remedy(answer.reason),
        nodes=len(places.names),
    )
    try:
        parsed = read_claims(claims, world.classes, world.rules)
    except Fatal:
        return told  # no device was looked at
    if _is_beyond(parsed) or claim_shape(claims, world).overspent(world):
        return told
    sieves = [[sift(option, world, places) for option in slot.options] for slot in parsed.slots]
    left = {id(sieve.option): sieve.left for of_slot in sieves for sieve in of_slot}
    what_if = WhatIf(claims, world, nodes, effort)
    reason = answer.reason if isinstance(answer, Unsatisfied) else None
    try:
        joint = joint_of(parsed, left, world, places, reason, what_if)
    except Malformed:  # which is why they are refused
        joint = Joint()
    told = replace(told, requests=tuple(_requests(parsed, sieves, joint, reason, world, places)))
    if isinstance(answer, Granted):
        return told
    if answer.reason in _JOINT:
        nearest = tuple(joint_misses(joint, left, sieves, world, places))
    else:
        nearest = tuple(near_misses(parsed, sieves, world, places))
    errors = dict(answer.nodes_refused)
    nearest = tuple(replace(miss, together=errors.get(miss.node, miss.together)) for miss in nearest)
    if answer.reason.is_error or not all(_possible(of_slot) for of_slot in sieves):
        return replace(told, nearest=tuple(miss for miss in nearest if miss.lacks or miss.together))
    conflict = what_if.conflict() if answer.reason is not Reason.GAVE_UP else ()
    return replace(
        told,
        nearest=tuple(_completed(miss, conflict, claims, what_if) for miss in nearest),
        constraints=tuple(dict.fromkeys(what_if.guilty())),
        preferences=tuple(dict.fromkeys(what_if.lifted(joint.named()))) if answer.reason in _JOINT else (),
        conflict=conflict,
    )


def _is_beyond(parsed: ParsedClaims) -> bool:
    """Whether there are more selectors than compiled ones are kept, so that each would be compiled again."""
    uses = {use.expression for slot in parsed.slots for option in slot.options for use in option.selectors}
    return len(uses) > MOST_SELECTORS


def _possible(alternatives: Sequence[Sieve]) -> bool:
    return any(bool(sieve.nodes.enough.any()) for sieve in alternatives)


def _requests(
    parsed: ParsedClaims,
    sieves: Sequence[Sequence[Sieve]],
    joint: Joint,
    reason: Reason | None,
    world: Snapshot,
    places: Places,
) -> Iterator[Request]:
    together = np.ones(len(places.names), dtype=np.bool_)
    for of_slot in sieves:
        together &= np.any([sieve.nodes.enough for sieve in of_slot], axis=0)
    left = {id(sieve.option): sieve.left for of_slot in sieves for sieve in of_slot}
    meant = {id(sieve.option): sieve.of_kind for of_slot in sieves for sieve in of_slot}
    empty = _JOINT.get(reason, Kind.TOGETHER) if reason is not None else None
    beyond = Beyond(together, joint, empty, left, meant)
    ties = tie(parsed, left, world, places)
    for of_slot in sieves:
        for sieve in of_slot:
            yield _request(parsed, sieve, world, places, ties, beyond)


def _request(
    parsed: ParsedClaims,
    sieve: Sieve,
    world: Snapshot,
    places: Places,
    ties: Mapping[tuple[int, int], Tied],
    beyond: Beyond,
) -> Request:
    option = sieve.option
    found = funnel(sieve, world)
    mine = [ties[option.claim, number] for number in option.constraints]
    wanted = None if option.all else option.source.wanted
    return Request(
        claim=parsed.claims[option.claim].key,
        request=option.name,
        wanted=wanted,
        devices=world.fleet.size,
        funnel=(*found.steps, *beyond.steps(sieve, mine, places, world)),
        smallest=smallest_sets(sieve.gates, wanted, places),
        shortages=found.shortages,
        failing=found.failing,
        possible=bool(sieve.nodes.enough.any()),
    )


def _completed(
    miss: NearMiss, conflict: Sequence[Named], claims: Sequence[ResourceClaim], what_if: WhatIf
) -> NearMiss:
    """What counting cannot tell of a node where each request alone finds enough devices."""
    if miss.lacks or miss.together:
        return miss
    if len(conflict) == 1:
        key, name = conflict[0]
        wanted = next(
            r.exactly.wanted if r.exactly is not None else 1
            for claim in claims
            if claim.key == key
            for r in claim.spec.devices.requests
            if r.name == name
        )
        if wanted > 1:
            have = what_if.most(conflict[0], miss.node)
            return replace(miss, together=f"{have} of {wanted} for request {name} fit at once")
    return replace(miss, together="each request could be met there, but not all together")
