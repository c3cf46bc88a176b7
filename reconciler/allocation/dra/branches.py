"""Shortens a search: the first way down without arrays for each device, and proofs that a branch has no
solution. Both are tested against exhaustive search.
"""

from collections.abc import Sequence
from itertools import islice

import numpy as np

from kernels.types import Amounts, Mask
from reconciler.allocation.dra.candidates import Candidates
from reconciler.allocation.dra.prover import Prover
from reconciler.allocation.dra.request_options import MAX_RESULTS, Slot
from reconciler.allocation.dra.state import Choice, NodeProblem, State, in_use, viable

WIDTH = 64
"""Bits of a field: amounts are below 2**63"""


def takes_first(slots: Sequence[Slot], by_slot: Sequence[Sequence[Candidates]], problem: NodeProblem) -> bool:
    """Whether a first way down can be found here: it takes single devices, and meets no error."""
    if problem.exclusion is not None or any(c.derived for of_claim in problem.constraints for c in of_claim):
        return False
    several = problem.shared | problem.snapshot.occupancy.sharing[problem.rows]
    some = bool(several.any())
    return all(
        one.listed is None
        and not one.option.admin
        and one.count
        and not one.static.fails
        and one.static.asks is None
        and not (some and (several & one.available).any())
        for of_slot in by_slot
        for one in of_slot
    ) and all(c.plain for slot in slots for c in problem.constraints[slot.claim])


def least_after(slots: Sequence[Slot], by_slot: Sequence[Sequence[Candidates]]) -> list[int]:
    """Of each slot: how many devices later ones of its claim take at least (SRCH-6).

    Slots from the first one that may end in an error do not count: the error comes before the limit.
    """
    found: list[int] = []
    claim, least = -1, 0
    for slot, alternatives in zip(reversed(slots), reversed(by_slot), strict=True):
        if slot.claim != claim:
            claim, least = slot.claim, 0
        if any(c.static.fails or (c.listed is not None and c.option.constraints) for c in alternatives):
            least = 0
            found.append(0)
        else:
            found.append(least)
            least += min([candidates.count for candidates in alternatives])
    return found[::-1]


class Descent:
    """The devices that come first, request by request, after those that are chosen."""

    def __init__(self, problem: NodeProblem, state: State) -> None:
        self._problem, self._state, self._amounts = problem, state, np.maximum(state.left, 0)
        self._guards = sum([1 << WIDTH * (at + 1) - 1 for at in range(problem.left.shape[1])])
        self._left: dict[int, int] = {}
        """What is left of each set that was looked at"""
        self._packed: dict[int, int] = {}
        """Row of the table -> its amounts as one integer"""
        self._taken = {choice.at for choice in state.chosen}
        self._values: list[set[int]] = []
        """Of each constraint of the claim: the values of what is chosen"""

    def run(
        self,
        slots: Sequence[Slot],
        by_slot: Sequence[Sequence[Candidates]],
        later: Sequence[int],
        first: int = 0,
    ) -> tuple[Choice, ...] | None:
        """What the search would choose without turning back; None if it has to.

        first   the number of the first of these slots, which belongs to the claim at hand
        later   for all slots, see `least_after`
        """
        chosen = [*self._state.chosen]
        claim, results = slots[0].claim, self._state.results
        self._values = self._chosen_values(claim)
        for number, (slot, alternatives) in enumerate(zip(slots, by_slot, strict=True), first):
            if slot.claim != claim:
                claim, results = slot.claim, 0
                self._values = [set() for _ in self._problem.constraints[claim]]
            found: list[int] | None = []
            for candidates in alternatives:
                if results + candidates.count + later[number] <= MAX_RESULTS:
                    found = self._first(candidates, last=candidates is alternatives[-1])
                    if found is None:
                        return None
                    if found:
                        chosen += [Choice(number, candidates, at) for at in found]
                        break
            if not found:
                return None
            results += len(found)
        return tuple(chosen)

    def _chosen_values(self, claim: int) -> list[set[int]]:
        values: list[set[int]] = [set() for _ in self._problem.constraints[claim]]
        for _, candidates, at in self._state.chosen:
            if candidates.option.claim == claim:
                for number in candidates.option.constraints:
                    values[number].add(self._problem.constraints[claim][number].codes.item(at))
        return values

    def _first(self, candidates: Candidates, *, last: bool) -> list[int] | None:
        """The devices for one alternative; none if there are too few of them now.

        None if there are enough, but those that come first leave too few others; of the last alternative
        also if there are too few: the search has to turn back in any case.
        """
        option = candidates.option
        rules = [(self._problem.constraints[option.claim][n], self._values[n]) for n in option.constraints]
        possible = candidates.available & self._state.fit
        for constraint, _ in rules:
            possible &= constraint.allowed(None)
        positions = candidates.in_order(possible)
        if last and len(positions) < candidates.count:
            return None
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
        if last:
            return None
        self._taken.difference_update(found)
        self._left = left
        for (_, values), before in zip(rules, values_before, strict=True):
            values.intersection_update(before)
        open_ = (
            at
            for at, *mine in zip(positions.tolist(), *codes, strict=True)
            if _admitted(mine, tests) and self._fits(at)
        )
        return [] if len(list(islice(open_, candidates.count))) < candidates.count else None

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
                    self._left[number] = _pack(self._amounts[number])
                if row not in self._packed:
                    self._packed[row] = _pack(self._problem.table[row])
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


def _pack(amounts: Amounts) -> int:
    """Amounts (C,) that are not negative as one integer, WIDTH bits each."""
    return int.from_bytes(amounts.astype("<i8", copy=False).tobytes(), "little")


def _may_fail(state: State, candidates: Candidates, *, mine: bool) -> bool:
    """Whether the option could meet an error. A later claim may use devices that this one may not (ADM-2)."""
    if candidates.listed is not None and candidates.option.constraints:
        return True  # a violated constraint is an error (SEL-6)
    if not candidates.static.fails:
        return False
    if candidates.static.underived is not None:
        return True
    if not mine and candidates.option.admin:
        return bool(candidates.fatal.any())
    return bool((candidates.fatal & ~in_use(state, candidates)).any())


def _possible(problem: NodeProblem, state: State, candidates: Candidates, *, mine: bool) -> Mask:
    """(n,) devices the option could still take. Constraints and marks are known for one claim only."""
    if mine:
        return viable(problem, state, candidates)
    mask = candidates.available & state.fit
    return mask if candidates.option.admin else mask & ~state.taken


def remaining(
    problem: NodeProblem, slots: Sequence[Slot], by_slot: Sequence[Sequence[Candidates]], state: State
) -> list[list[tuple[Candidates, Mask]]]:
    """Of each of the next requests up to one that may be an error: its alternatives, each with the (n,)
    devices that it could take. The first request belongs to the current claim.
    """
    found: list[list[tuple[Candidates, Mask]]] = []
    for slot, alternatives in zip(slots, by_slot, strict=True):
        mine = slot.claim == slots[0].claim
        if any(_may_fail(state, c, mine=mine) for c in alternatives):
            break
        found.append([(c, _possible(problem, state, c, mine=mine)) for c in alternatives])
    return found


def is_impossible(
    prover: Prover, slots: Sequence[Slot], by_slot: Sequence[Sequence[Candidates]], state: State
) -> bool:
    """Whether it is proved that the next requests cannot be met. Never true if an error comes first."""
    left = remaining(prover.problem, slots, by_slot, state)
    if not all(map(_some_alternative, left)):
        return True
    return bool(left) and prover.is_impossible(slots[: len(left)], left, state) is True


def _some_alternative(alternatives: Sequence[tuple[Candidates, Mask]]) -> bool:
    return any(_enough(candidates, mask) for candidates, mask in alternatives)


def _enough(candidates: Candidates, mask: Mask) -> bool:
    if candidates.listed is not None:
        return bool(len(candidates.listed)) and bool(mask[candidates.listed].all())
    return int(np.count_nonzero(mask)) >= candidates.count
