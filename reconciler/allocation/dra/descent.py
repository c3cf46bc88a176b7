"""The first way down of a search, without arrays for each device: most claims need no other.

A search without errors, shares and exclusion first takes, for each request, the first devices that fit. Here
this is done with the counters of a set as one integer: a field for each counter, and a guard bit above it.
"""

from collections.abc import Sequence

import numpy as np

from reconciler.allocation.dra.candidates import Candidates
from reconciler.allocation.dra.request_options import MAX_RESULTS, Slot
from reconciler.allocation.dra.state import Choice, NodeProblem, State

WIDTH = 64
"""Bits of a field: amounts are below 2**63"""


def takes_first(slots: Sequence[Slot], by_slot: Sequence[Sequence[Candidates]], problem: NodeProblem) -> bool:
    """Whether a first way down can be found here: it takes single devices, and meets no error."""
    if problem.exclusion is not None or any(c.derived for of_claim in problem.constraints for c in of_claim):
        return False
    alone = ~(problem.shared | problem.snapshot.occupancy.sharing[problem.rows])
    return all(
        one.listed is None
        and not one.option.admin
        and one.count
        and not one.static.fails
        and one.static.asks is None
        and bool((alone | ~one.available).all())
        for of_slot in by_slot
        for one in of_slot
    ) and all(c.plain for slot in slots for c in problem.constraints[slot.claim])


class Descent:
    """The devices that come first, request by request."""

    def __init__(self, problem: NodeProblem, state: State) -> None:
        self._problem, self._fit, self._amounts = problem, state.fit, state.left
        self._guards = sum([1 << WIDTH * (at + 1) - 1 for at in range(problem.left.shape[1])])
        self._left: dict[int, int] = {}
        """What is left of each set that was looked at"""
        self._packed: dict[int, int] = {}
        """Row of the table -> its amounts as one integer"""
        self._taken: set[int] = set()
        self._values: list[set[int]] = []
        """Of each constraint of the claim: the values of what is chosen"""

    def run(
        self, slots: Sequence[Slot], by_slot: Sequence[Sequence[Candidates]]
    ) -> tuple[Choice, ...] | None:
        """What the search would choose without turning back; None if it has to."""
        chosen: list[Choice] = []
        claim, results = -1, 0
        for number, (slot, alternatives) in enumerate(zip(slots, by_slot, strict=True)):
            if slot.claim != claim:
                claim, results = slot.claim, 0
                self._values = [set() for _ in self._problem.constraints[claim]]
            found: list[int] | None = []
            for candidates in alternatives:
                if results + candidates.count <= MAX_RESULTS:
                    found = self._first(candidates)
                    if found is None:
                        return None
                    if found:
                        chosen += [Choice(number, candidates, at) for at in found]
                        break
            if not found:
                return None
            results += len(found)
        return tuple(chosen)

    def _first(self, candidates: Candidates) -> list[int] | None:
        """The devices for one alternative; none if there are too few of them now.

        None if there are enough, but those that come first leave too few others.
        """
        option = candidates.option
        rules = [(self._problem.constraints[option.claim][n], self._values[n]) for n in option.constraints]
        possible = candidates.available & self._fit
        for constraint, _ in rules:
            possible &= constraint.codes >= 0
        positions = candidates.in_order(possible)
        codes = [constraint.codes[positions].tolist() for constraint, _ in rules]
        tests = [(constraint.match, values) for constraint, values in rules]
        left, values_before = dict(self._left), [set(values) for _, values in rules]
        found: list[int] = []
        for at, *mine in zip(positions.tolist(), *codes, strict=True):
            if _admitted(mine, tests) and self._fits(at, take=True):
                found.append(at)
                for code, (_, values) in zip(mine, tests, strict=True):
                    values.add(code)
                if len(found) == candidates.count:
                    return found
        self._taken.difference_update(found)
        self._left = left
        for (_, values), before in zip(rules, values_before, strict=True):
            values.intersection_update(before)
        open_ = [
            at
            for at, *mine in zip(positions.tolist(), *codes, strict=True)
            if _admitted(mine, tests) and self._fits(at)
        ]
        return None if len(open_) >= candidates.count else []

    def _fits(self, at: int, *, take: bool = False) -> bool:
        """Whether a device can be taken; with `take` it is, if so."""
        if at in self._taken:
            return False
        after = {}
        for number, row in zip(
            self._problem.sets[at].tolist(), self._problem.draws[at].tolist(), strict=True
        ):
            if number >= 0:
                if number not in self._left:
                    self._left[number] = _pack(np.maximum(self._amounts[number], 0).tolist())
                if row not in self._packed:
                    self._packed[row] = _pack(self._problem.table[row].tolist())
                rest = (self._left[number] | self._guards) - self._packed[row]
                if rest & self._guards != self._guards:
                    return False
                after[number] = rest ^ self._guards
        if take:
            self._left.update(after)
            self._taken.add(at)
        return True


def _admitted(codes: Sequence[int], tests: Sequence[tuple[bool, set[int]]]) -> bool:
    """Whether constraints admit a device with these values; of each: is it matchAttribute, values chosen."""
    for code, (match, values) in zip(codes, tests, strict=True):
        if values and (code in values) != match:
            return False
    return True


def _pack(amounts: Sequence[int]) -> int:
    return sum([amount << WIDTH * at for at, amount in enumerate(amounts)])
