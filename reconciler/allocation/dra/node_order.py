"""The order in which a decision tries nodes: by rank, placement policy and preferences of the pod (PREF-6).

Lazy, since mostly only the first node is used.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from kernels.distinct import distinct
from kernels.types import Amounts, Mask
from reconciler.allocation.dra.claim_shapes import claim_shape
from reconciler.allocation.dra.refusal import Fatal
from reconciler.allocation.dra.request_options import ParsedClaims
from reconciler.allocation.policies.pod_room import PodRoom
from reconciler.allocation.policies.policy import Policy, Question
from reconciler.api.objects.claims import ResourceClaim
from reconciler.state.devices.snapshot.snapshot import Snapshot


def nodes_in_order(
    question: Question,
    policy: Policy | None,
    among: Mask,
    ranks: Amounts | None = None,
) -> Iterator[tuple[int, int]]:
    """(best possible rank, place) of the nodes in `among` (N,); equal nodes by name.

    ranks (N,)  the best rank that each could give; None if all give the same

    The rank of alternatives counts more than all else. Then come the points of the preferences and the keys
    of the policy, or the other way round. The policy compares only nodes that are equal in what comes first.
    """
    preferences = None if question.pod is None else question.pod.preferences
    points = None if preferences is None else preferences.points(among)
    before, after = [] if ranks is None else [ranks], None
    if preferences is not None and points is not None:
        if preferences.first:
            before.append(-points)
        else:
            after = -points
    for level in _levels(before, among):
        keys = None if policy is None else policy.nodes(question, level)
        rank = 0 if ranks is None else int(ranks[level.argmax()])
        for place in _in_order(level, keys, after):
            yield rank, place


def preferred_places(
    claims: Sequence[ResourceClaim], snapshot: Snapshot, policy: Policy | None, pod: PodRoom | None
) -> Callable[[Mask], Iterator[int]] | None:
    """The places of some nodes (N,) in the order of a policy or of what the pod prefers; None for first fit.

    Ranks of alternatives do not count.
    """
    if policy is None and not prefers(pod):
        return None

    def in_order(among: Mask) -> Iterator[int]:
        try:
            parsed = claim_shape(claims, snapshot).parsed
        except Fatal:  # the allocator reports it
            yield from np.flatnonzero(among).tolist()
            return
        question = Question(ParsedClaims(tuple(claims), parsed.slots), snapshot, pod)
        for _, place in nodes_in_order(question, policy, among):
            yield place

    return in_order


def prefers(pod: PodRoom | None) -> bool:
    """Whether what a pod prefers counts without a policy."""
    return pod is not None and pod.preferences is not None and pod.preferences.with_first_fit


def _levels(before: Sequence[Amounts], among: Mask) -> Iterator[Mask]:
    """(N,) the nodes that are equal in all of `before`, the least values first."""
    if not before:
        if among.any():
            yield among
        return
    values = before[0][among]
    if len(values) and (values == values[0]).all():
        yield from _levels(before[1:], among)
        return
    for value in distinct(values).tolist():
        yield from _levels(before[1:], among & (before[0] == value))


def _in_order(among: Mask, keys: Amounts | None, after: Amounts | None) -> Iterator[int]:
    """Places by key, then by `after`, then in their order. None: all are equal."""
    places = np.flatnonzero(among)
    if not len(places):
        return
    if keys is None and after is None:
        yield from places.tolist()
        return
    if after is not None:
        columns = [places, after[places]] if keys is None else [places, after[places], keys[places]]
        yield from places[np.lexsort(columns)].tolist()
        return
    assert keys is not None
    keys = keys[places]
    first = int(keys.argmin())
    yield int(places[first])
    rest = np.argsort(keys, kind="stable")
    yield from places[rest[rest != first]].tolist()
