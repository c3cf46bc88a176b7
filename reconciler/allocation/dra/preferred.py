"""The order in which a decision tries nodes and devices: as a policy and the pod prefer them (PREF-6).

An order never turns a yes into a no, and a better alternative of a request is never given up for a preferred
node or device (SC-1).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from kernels.groups import distinct
from kernels.types import Amounts, Codes, Mask
from reconciler.allocation.dra.budget import Budget, Fatal
from reconciler.allocation.dra.candidates import Candidates
from reconciler.allocation.dra.charging import Reach
from reconciler.allocation.dra.claim_shapes import claim_shape
from reconciler.allocation.dra.node_attempt import NodeGrant, NodeRefusal
from reconciler.allocation.dra.request_options import ParsedClaims, Slot
from reconciler.allocation.dra.search import equality_classes
from reconciler.allocation.dra.state import Choice, NodeProblem, State, begin, choose, enter_claim, viable
from reconciler.allocation.policies.policy import PodRoom, Policy, PolicyQuestion, SetJudge
from reconciler.api.objects.claims import ResourceClaim
from reconciler.state.devices.snapshot import Snapshot, View

TRIES = 256
"""Devices that are tried on one node, about"""
WIDTH = 8
"""Partial sets that are kept at each step"""

_Picks = tuple[tuple[int, int], ...]
"""(slot, class of a device), sorted: equal for sets that differ only in devices that replace each other"""


@dataclass(slots=True)
class BestSet:
    """One choice among sets. The same question has the same answer."""

    problem: NodeProblem
    slots: Sequence[Slot]
    judge: SetJudge
    reach: Reach | None
    budget: Budget
    tries: int = TRIES
    width: int = WIDTH
    steps: int = 0
    """Devices tried so far"""
    _classes: Codes = field(init=False)
    """(n,) devices of one class can replace each other, and the policy does not tell them apart"""

    def better_than(self, found: tuple[Choice, ...]) -> tuple[Choice, ...]:
        """A set that the policy prefers to `found`, or `found` itself.

        The preferred one of all sets if there are few. Raises Unfinished as the budget does.
        """
        free = sum(choice.candidates.listed is None for choice in found)
        if free < 2 or any(choice.candidates.option.admin for choice in found):
            return found
        if any(choice.candidates.static.fails for choice in found):
            return found  # trying a device may be an error
        self._classes = self._equal(found)
        if self._alike(found):
            return found
        known = self._replayed(found)
        complete = self._all(found, free)
        if not complete:
            return found
        keys = self.judge.keys([known, *complete])
        for at in np.argsort(keys[1:], kind="stable").tolist():
            if keys[1 + at] >= keys[0]:
                break
            if self.reach is None or self.reach.accepts(complete[at].chosen):
                return complete[at].chosen
        return found

    def _all(self, found: tuple[Choice, ...], free: int) -> list[State]:
        """The sets that are left at the end, in the order of the policy."""
        beam: dict[_Picks, State] = {(): self._begin(found)}
        claim = self.slots[found[0].slot].claim
        for slot, of_slot in groupby(found, key=lambda choice: choice.slot):
            choices = list(of_slot)
            if self.slots[slot].claim != claim:
                claim = self.slots[slot].claim
                constraints = self.problem.constraints[claim]
                beam = {picks: enter_claim(state, constraints) for picks, state in beam.items()}
            if choices[0].candidates.listed is not None:
                beam = {p: s for p, one in beam.items() if (s := self._take_all(one, choices)) is not None}
                continue
            for _ in choices:
                beam = self._widened(beam, slot, choices[0].candidates, max(self.tries // free, 1))
        return list(beam.values())

    def _widened(
        self, beam: dict[_Picks, State], slot: int, candidates: Candidates, tries: int
    ) -> dict[_Picks, State]:
        """The partial sets with one more device for a slot, as many as are kept."""
        made: dict[_Picks, State] = {}
        each = max(tries // max(len(beam), 1), 1)
        for picks, state in beam.items():
            self.budget.spend()
            tried: set[int] = set()
            possible = viable(self.problem, state, candidates)
            possible[[choice.at for choice in state.chosen if choice.slot == slot]] = False  # no two shares
            for at in candidates.in_order(possible).tolist():
                of_class = int(self._classes[at])
                if of_class in tried:
                    continue
                if len(tried) == each:
                    break
                tried.add(of_class)
                following = tuple(sorted((*picks, (slot, of_class))))
                if following not in made:
                    self.steps += 1
                    made[following] = choose(self.problem, state, slot, candidates, at)
        if len(made) <= self.width:
            return made
        order = np.argsort(self.judge.keys(list(made.values())), kind="stable")[: self.width]
        every = list(made.items())
        return dict(every[at] for at in sorted(order.tolist()))

    def _take_all(self, state: State, choices: Sequence[Choice]) -> State | None:
        """The state with all devices of a request for all devices; None if another request took one."""
        for slot, candidates, at in choices:
            if not viable(self.problem, state, candidates)[at]:
                return None
            state = choose(self.problem, state, slot, candidates, at)
        return state

    def _begin(self, found: tuple[Choice, ...]) -> State:
        return begin(self.problem, self.problem.constraints[self.slots[found[0].slot].claim])

    def _replayed(self, found: tuple[Choice, ...]) -> State:
        """The state of a set that fits."""
        state, claim = self._begin(found), self.slots[found[0].slot].claim
        for slot, candidates, at in found:
            if self.slots[slot].claim != claim:
                claim = self.slots[slot].claim
                state = enter_claim(state, self.problem.constraints[claim])
            state = choose(self.problem, state, slot, candidates, at)
        return state

    def _alike(self, found: tuple[Choice, ...]) -> bool:
        """Whether all sets are the same to the policy: all devices of the only request replace each other."""
        every = {choice.slot: choice.candidates for choice in found if choice.candidates.listed is None}
        if len(every) != 1:
            return False
        (only,) = every.values()
        classes = self._classes[only.available]
        return bool((classes == classes[0]).all())

    def _equal(self, found: tuple[Choice, ...]) -> Codes:
        every = list({choice.slot: choice.candidates for choice in found}.values())
        reach = [self.reach.codes] if self.reach is not None else []
        equal = equality_classes(self.problem, every, reach).astype(np.int64)
        _, classes = np.unique(equal << 32 | self.judge.classes, return_inverse=True)
        return classes.reshape(-1).astype(np.int32)


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


class PreferredDevices(Struct, frozen=True, eq=False):
    """Attempts with the devices in the order of a policy; in first-fit order where that order costs."""

    _question: PolicyQuestion
    _policy: Policy
    _attempt_on: Callable[..., NodeGrant | NodeRefusal]
    """`node_attempt.attempt` for the claims of the question"""
    _budget: Budget

    def attempt(self, node: str, better_than: int | None = None) -> NodeGrant | NodeRefusal:  # noqa: ARG002 - as `attempt`
        """The devices on one node that the policy prefers, whatever their rank."""
        preferred = self._attempt_on(node, ordered=self._ordered, choose_set=self._choose_set)
        if isinstance(preferred, NodeRefusal):
            # Without an error, and with steps left, the search tried everything: in any order.
            if preferred.reason is None:
                return preferred
        elif preferred.rank == 0 or len(self._question.parsed.slots) == 1:
            return preferred
        first_fit = self._attempt_on(node)
        spent = preferred.steps + first_fit.steps
        if isinstance(preferred, NodeRefusal) or (
            isinstance(first_fit, NodeGrant) and first_fit.rank < preferred.rank
        ):
            return replace(first_fit, steps=spent)
        return replace(preferred, steps=spent)

    def _choose_set(
        self, problem: NodeProblem, found: tuple[Choice, ...], reach: Reach | None
    ) -> tuple[tuple[Choice, ...], int]:
        judge = self._policy.sets(self._question, problem.view)
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
        order = None
        if candidates.listed is None:
            order = self._policy.devices(self._question, candidates, view)
        return candidates if order is None else replace(candidates, order=order)
