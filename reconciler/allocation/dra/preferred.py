"""A decision in the order of a policy and of what the pod prefers. First fit answers where it finds nothing.

So an order never turns a yes into a no, and a better alternative of a request is never given up for a
preferred node or device (SC-1).
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from msgspec.structs import replace

from kernels.groups import distinct
from kernels.types import Amounts, Mask
from reconciler.allocation.dra.best_set import BestSet
from reconciler.allocation.dra.budget import Budget, Fatal
from reconciler.allocation.dra.candidates import Candidates
from reconciler.allocation.dra.claim_shapes import claim_shape
from reconciler.allocation.dra.companions import Companions, Reach
from reconciler.allocation.dra.node_attempt import ChooseSet, Found, NotFound, Only, Ordered, attempt
from reconciler.allocation.dra.request_options import ParsedClaims
from reconciler.allocation.dra.state import Choice, NodeProblem
from reconciler.allocation.policies.policy import PodRoom, Policy, PolicyQuestion
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.plan import Granted
from reconciler.state.devices.snapshot import Snapshot, View


def nodes_in_order(
    question: PolicyQuestion,
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
        question = PolicyQuestion(ParsedClaims(tuple(claims), parsed.slots), snapshot, pod)
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


MOST_NODES = 8
"""Preferred nodes on which the devices turn out not to fit, until first fit takes over."""


class PreferredSearch:
    """One decision in the order of a policy."""

    def __init__(
        self,
        question: PolicyQuestion,
        policy: Policy | None,
        *,
        steps: int,
        new_share: Callable[[], str],
        budget: Budget,
        only: Only | None,
        companions: Companions | None,
    ) -> None:
        """As `allocate`; each attempt may use all steps. Without a policy, devices have first-fit order."""
        self._question = question
        self._policy = policy
        self._steps = steps
        self._new_share = new_share
        self._budget = budget
        self._only = only
        self._companions = companions
        self.steps = 0
        """Steps of all attempts so far"""

    def run(self, among: Mask, ranks: Amounts | None) -> Granted | None:
        """Devices on the preferred node of those with the best rank; None if first fit has to decide.

        among (N,)  nodes that may fit
        ranks (N,)  the best rank that each could give; None if all give the same

        Raises Unfinished as the budget does.
        """
        best: tuple[int, int, Found] | None = None
        in_order = nodes_in_order(self._question, self._policy, among, ranks)
        for number, (least, place) in enumerate(in_order):
            if best is not None and least >= best[0]:  # equal ranks: the preferred node was earlier
                break
            if (best is None and number == MOST_NODES) or self.steps >= MOST_NODES * self._steps:
                return None
            self._budget.spend()
            outcome = self._on_node(self._question.snapshot.topology.order[place])
            if isinstance(outcome, Found) and (best is None or outcome.rank < best[0]):
                best = outcome.rank, place, outcome
        if best is None:
            return None
        order = self._question.snapshot.topology.order
        return Granted(node=order[best[1]], plans=best[2].plans, steps=self.steps)

    def _on_node(self, node: str) -> Found | NotFound:
        """The devices that the policy prefers, or those of first fit where the order of the policy costs."""
        if self._policy is None:
            return self._attempt(node, None)
        preferred = self._attempt(node, self._ordered, self._choose_set)
        if isinstance(preferred, NotFound):
            # Without an error, and with steps left, the search tried everything: in any order.
            return preferred if preferred.reason is None else self._attempt(node, None)
        if preferred.rank == 0 or len(self._question.parsed.slots) == 1:
            return preferred
        plain = self._attempt(node, None)
        return plain if isinstance(plain, Found) and plain.rank < preferred.rank else preferred

    def _attempt(
        self, node: str, ordered: Ordered | None, choose_set: ChooseSet | None = None
    ) -> Found | NotFound:
        outcome = attempt(
            self._question.parsed,
            node,
            self._question.snapshot,
            steps=self._steps,
            new_share=self._new_share,
            budget=self._budget,
            only=self._only,
            companions=self._companions,
            ordered=ordered,
            choose_set=choose_set,
        )
        self.steps += outcome.steps
        return outcome

    def _choose_set(
        self, problem: NodeProblem, found: tuple[Choice, ...], reach: Reach | None
    ) -> tuple[tuple[Choice, ...], int]:
        judge = self._policy.sets(self._question, problem.view) if self._policy is not None else None
        if judge is None:
            return found, 0
        choice = BestSet(problem, self._question.parsed.slots, judge, reach, self._budget)
        return choice.better_than(found), choice.steps

    def _ordered(self, by_slot: list[list[Candidates]], view: View) -> list[list[Candidates]]:
        """Candidates in the order of the policy. A node with errors has them in first-fit order only."""
        if any(one.static.fails for of_slot in by_slot for one in of_slot):
            return by_slot
        return [[self._order(one, view) for one in of_slot] for of_slot in by_slot]

    def _order(self, candidates: Candidates, view: View) -> Candidates:
        if candidates.listed is not None or self._policy is None:
            return candidates
        order = self._policy.devices(self._question, candidates, view)
        return candidates if order is None else replace(candidates, order=order)
