"""What the next requests ask for, in terms that a proof can count: kinds of requests, and how many of each.

Requests are of one kind if the same devices suit them under the same constraints. So a claim with twenty
equal requests asks for one kind, and with alternatives it asks for one of several vectors of counts.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kernels.groups import distinct
from kernels.types import Amounts, Mask
from reconciler.allocation.dra.candidates import Candidates
from reconciler.allocation.dra.constraints import Constraint, Tokens
from reconciler.allocation.dra.request_options import MAX_RESULTS, RequestOption, Slot
from reconciler.allocation.dra.state import NodeProblem, State

MOST_VECTORS = 1 << 15
"""Counts that the alternatives may ask for. With more, nothing is proved."""

Alternatives = Sequence[tuple[Candidates, Mask]]
"""Of one request: each with the (n,) devices that it could take"""
RuleKey = tuple[int, int]
"""A constraint: its claim, and its number in the claim"""


class Asked(NamedTuple):
    """What the next requests ask for: counts of K kinds of n devices."""

    masks: Mask
    """(K, n) devices of each kind"""
    rules: list[tuple[RuleKey, ...]]
    """Of each kind: the constraints"""
    options: list[RequestOption]
    """Of each kind: one of them"""
    claims: list[int]
    """Of each kind: its claim, if that could get too many devices; else -1"""
    wanted: Amounts
    """(v, K) the counts, one row for each choice of alternatives; none if there are too many"""
    complete: bool
    """Whether no request and no constraint was left out"""
    before: dict[RuleKey, Tokens | None]
    """Of each constraint: the values of what is chosen"""


class _Alternative(NamedTuple):
    option: RequestOption
    wanted: int
    mask: Mask
    rules: list[RuleKey]


class Reader:
    """Reads the next requests in one state."""

    def __init__(self, problem: NodeProblem, claim: int, state: State) -> None:
        """`claim` is the claim at hand, for which the state knows constraints."""
        self._problem, self._claim, self._state = problem, claim, state
        self._sharing = problem.shared | problem.snapshot.occupancy.sharing[problem.rows]
        self._before: dict[RuleKey, Tokens | None] = {}
        self._complete = True
        """Whether no request and no constraint was left out"""

    def read(self, slots: Sequence[Slot], by_slot: Sequence[Alternatives]) -> Asked | None:
        """What requests ask for; None if one of them cannot be met, whatever the others get."""
        requests: list[tuple[int, list[_Alternative]]] = []
        for slot, alternatives in zip(slots, by_slot, strict=True):
            if all(self._counts(candidates, mask) for candidates, mask in alternatives):
                read = [self._alternative(slot.claim, candidates, mask) for candidates, mask in alternatives]
                found = [one for one in read if self._enough(*one)]
                if not found:
                    return None
                requests.append((slot.claim, found))
            else:
                self._complete = False
        self._drop_rules_without_effect([found for _, found in requests])
        return self._asked(requests)

    def _counts(self, candidates: Candidates, mask: Mask) -> bool:
        """Whether an alternative takes a number of devices, each for itself."""
        return candidates.listed is None and not candidates.option.admin and not (mask & self._sharing).any()

    def _alternative(self, claim: int, candidates: Candidates, mask: Mask) -> _Alternative:
        rules, option = [], candidates.option
        for number in option.constraints:
            constraint, chosen = self._problem.constraints[claim][number], None
            if claim == self._claim:
                chosen = self._state.constraints[number]
            else:
                mask = mask & constraint.allowed(None, option)
            if constraint.match and not constraint.alone:
                if constraint.plain and chosen is not None:
                    continue  # the mask has that value only
                self._before[claim, number] = chosen
                rules.append((claim, number))
            elif not constraint.match and constraint.plain and not constraint.derived:
                self._before[claim, number] = None
                rules.append((claim, number))
            else:
                self._complete = False
        return _Alternative(option, candidates.count, mask, rules)

    def _enough(self, option: RequestOption, count: int, mask: Mask, rules: Sequence[RuleKey]) -> bool:
        """Whether there are devices enough for one alternative alone."""
        if int(np.count_nonzero(mask)) < count:
            return False
        plain = [c for claim, number in rules if (c := self._problem.constraints[claim][number]).plain]
        differing = [c.codes[mask] for c in plain if not c.match]
        if any(len(distinct(codes)) < count for codes in differing):
            return False
        for constraint in plain:
            if constraint.match:
                codes = constraint.of(option)[mask]
                if np.bincount(codes).max() < count:
                    return False
                for others in differing:  # of one value, devices that differ in another attribute
                    pairs = distinct(codes.astype(np.int64) << 32 | others)
                    if np.bincount(pairs >> 32).max() < count:
                        return False
        return True

    def _drop_rules_without_effect(self, requests: Sequence[Sequence[_Alternative]]) -> None:
        """Constraints on one device at most, or on devices that all differ."""
        for key in list(self._before):
            under = [[one for one in found if key in one.rules] for found in requests]
            masks = [one.mask for found in under for one in found]
            constraint = self._problem.constraints[key[0]][key[1]]
            if sum([max([one.wanted for one in found], default=0) for found in under]) < 2 or (
                not constraint.match
                and np.bincount(constraint.codes[np.any(masks, axis=0)]).max(initial=0) < 2
            ):
                del self._before[key]

    def _asked(self, requests: list[tuple[int, list[_Alternative]]]) -> Asked:
        most = {self._claim: self._state.results}
        for claim, found in requests:
            most[claim] = most.get(claim, 0) + max([one.wanted for one in found])
        numbers: dict[tuple[bytes, tuple[RuleKey, ...], int, tuple[int, ...]], int] = {}
        masks, options = list[Mask](), list[RequestOption]()
        sums = {0}  # vectors of counts, 16 bits for each kind
        for claim, found in requests:
            choices = set()
            for option, count, mask, rules in found:
                mine = tuple([rule for rule in rules if rule in self._before])
                seen = tuple([id(self._problem.constraints[at][number].of(option)) for at, number in mine])
                key = mask.tobytes(), mine, claim if most[claim] > MAX_RESULTS else -1, seen
                if key not in numbers:
                    numbers[key] = len(masks)
                    masks.append(mask)
                    options.append(option)
                choices.add(count << 16 * numbers[key])
            sums = {one + choice for one in sums for choice in choices}
            if len(sums) > MOST_VECTORS:
                sums = set()
        packed = b"".join([one.to_bytes(2 * len(masks), "little") for one in sums])
        return Asked(
            masks=np.array(masks, dtype=np.bool_),
            rules=[rules for _, rules, _, _ in numbers],
            options=options,
            claims=[claim for _, _, claim, _ in numbers],
            wanted=np.frombuffer(packed, dtype="<u2").reshape(len(sums), len(masks)).astype(np.int64),
            complete=self._complete,
            before=self._before,
        )


def kinds_by_value(
    constraint: Constraint, asked: Asked, kinds: Sequence[int], values: Tokens | None
) -> list[Amounts]:
    """For each value that devices may share, (n,) the kinds that each device may still serve, one bit each.

    kinds   those that have to share a value
    values  those that are left; None for all
    """
    columns = [constraint.of(asked.options[kind]) for kind in kinds]
    used = [column[asked.masks[kind]] for kind, column in zip(kinds, columns, strict=True)]
    tokens = {code: constraint.tokens[code] for code in distinct(np.concatenate(used)).tolist()}
    if values is None:
        values = frozenset().union(*tokens.values())
    ways = []
    for codes in sorted(
        {tuple([code for code, mine in tokens.items() if value in mine]) for value in values}
    ):
        bits = np.full(len(constraint.codes), -1, dtype=np.int64)
        for kind, column in zip(kinds, columns, strict=True):
            bits &= np.where(np.isin(column, codes), -1, ~(1 << kind))
        ways.append(bits)
    return ways
