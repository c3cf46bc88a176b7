"""The devices that a policy prefers as a set, among those that fit together on one node.

A policy orders devices one by one. Of several devices, each can be the best alone and the set a bad one. This
starts from a set that fits, and tries others with the same alternatives of all requests: it widens partial
sets device by device and keeps those that cost least. The work is bounded; the set that is known already
counts wherever nothing better is found.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np

from kernels.types import Codes
from reconciler.allocation.dra.budget import Budget
from reconciler.allocation.dra.candidates import Candidates
from reconciler.allocation.dra.companions import Reach
from reconciler.allocation.dra.request_options import Slot
from reconciler.allocation.dra.search import equality_classes
from reconciler.allocation.dra.state import Choice, NodeProblem, State, begin, choose, enter_claim, viable
from reconciler.allocation.policies.policy import SetJudge

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
