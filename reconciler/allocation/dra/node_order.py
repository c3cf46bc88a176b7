"""The order in which a decision tries nodes: by rank, placement policy and preferences of the pod (PREF-6).

Lazy, since mostly only the first node is used.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from kernels.types import Amounts, Mask
from reconciler.allocation.policies.policy import LAST, Policy, Question


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
    for value in np.unique(values).tolist():
        yield from _levels(before[1:], among & (before[0] == value))


def _in_order(among: Mask, keys: Amounts | None, after: Amounts | None) -> Iterator[int]:
    """Places by key, then by `after`, then in their order. None: all are equal."""
    places = np.flatnonzero(among)
    if keys is None and after is None:
        yield from places.tolist()
        return
    if after is not None:
        columns = [places, after[places]] if keys is None else [places, after[places], keys[places]]
        yield from places[np.lexsort(columns)].tolist()
        return
    assert keys is not None
    keys = np.where(among, keys, LAST)
    remaining = among.copy()
    while True:
        at = int(keys.argmin())
        if keys[at] == LAST:
            yield from np.flatnonzero(remaining).tolist()
            return
        yield at
        keys[at], remaining[at] = LAST, False
