"""Depth-first search for devices for all claims of a decision together. The first solution wins.

Complete within its steps. Source: docs/reference/rules/search.md. Requests are visited in order, devices by
position or in the order of a policy; the devices of one request have rising places in that order (SRCH-1).
The search skips branches that the bounds exclude, and devices equal to one that failed. Neither hides a
solution or an error.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from msgspec import Struct

from kernels.types import Codes, Mask, Rows
from reconciler.allocation.dra.branches import Descent, is_impossible, least_after, takes_first
from reconciler.allocation.dra.budget import STEPS, UNLIMITED, Budget, Fatal, GaveUp
from reconciler.allocation.dra.candidates import Candidates
from reconciler.allocation.dra.charging import NodeCharging, Reach
from reconciler.allocation.dra.claim_shapes import entangled
from reconciler.allocation.dra.prover import MOST_WORK, Prover
from reconciler.allocation.dra.request_options import MAX_RESULTS, Slot
from reconciler.allocation.dra.selector_masks import derived_failure
from reconciler.allocation.dra.state import (
    Choice,
    NodeProblem,
    State,
    before_constraints,
    begin,
    choose,
    enter_claim,
    equality_columns,
    in_use,
    underived,
    viable,
)
from reconciler.api.objects.plan import Reason


def equality_classes(
    problem: NodeProblem, every: Sequence[Candidates], besides: Sequence[Codes] = ()
) -> Codes:
    """(n,) class numbers. Devices of one class can replace each other in any solution.

    Two devices are equal if all options have equal masks for them, all constraints see the same value, they
    draw the same from the same counter sets, and they exclude the same devices. Shared devices are never
    equal, because the capacity consumed of each changes from step to step. `besides` (n,) each: what else
    must be equal, such as the nodes that use a device.
    """
    fleet, rows = problem.snapshot.fleet, problem.rows
    count = len(rows)
    columns = [
        problem.sets.T,
        problem.draws.T,
        fleet.codes["shape"][rows][None],
        fleet.codes["selector"][rows][None],
        fleet.codes["asked"][rows][None],
    ]
    alone = problem.shared | problem.snapshot.occupancy.sharing[rows]
    columns.append(np.where(alone, np.arange(count, dtype=np.int32), -1)[None])
    for candidates in every:
        columns.append((candidates.available * 1 + candidates.fatal * 2).astype(np.int32)[None])
        if candidates.listed is not None:
            listed = np.zeros(count, dtype=np.int32)
            # Where a violated constraint is an error, the order of the listed devices matters.
            ordered = bool(candidates.option.constraints)
            listed[candidates.listed] = 1 + np.arange(candidates.count) if ordered else 1
            columns.append(listed[None])
    if problem.exclusion is not None:
        columns.append(equality_columns(problem.exclusion))
    columns += [codes[None] for codes in besides]
    columns += [codes[None] for of_claim in problem.constraints for c in of_claim for codes in c.columns]
    seen = np.ascontiguousarray(np.concatenate(columns).T)
    _, classes = np.unique(seen.view(f"V{seen.strides[0]}"), return_inverse=True)  # bytes compare faster
    return classes.reshape(-1).astype(np.int32)


NOWHERE = 1 << 30
"""Behind every place on the way of a search."""
MAX_FAILED_PROOFS = 32
"""Dead ends in a row without a proof, before proofs are tried less often."""
PROOF_INTERVAL = 16
"""Then at one dead end in so many."""
CAREFUL = 2
"""Choices that are tested by a proof before they are made, after one that was in vain."""


class _Node(Struct):
    """A place on the way of the search: what remains to be chosen, and the state."""

    slot: int
    candidates: Candidates | None
    """The alternative that is being met; None if all are to be tried"""
    count: int
    """Devices that it still needs"""
    start: int
    """Their first place in its order"""
    state: State
    open: bool = False
    """Whether a proof that it has no solution was tried and failed"""


@dataclass(slots=True)
class Search:
    """One search on one node. `steps` counts the devices tried."""

    problem: NodeProblem
    slots: Sequence[Slot]
    by_slot: Sequence[Sequence[Candidates]]
    """Of each slot: the candidates of its alternatives, in order"""
    max_steps: int
    pruned: bool = True
    """Whether bounds and equal devices are used. Tests compare both ways."""
    budget: Budget = UNLIMITED
    reach: Reach | None = None
    """Decides which solutions count; None: all do"""
    charged: NodeCharging | None = None
    """Decides the same by what devices take of the node"""
    steps: int = 0
    _way: list[_Node] = field(default_factory=list, repr=False)
    """From the first request to where the search is"""
    _dead: int = field(default=NOWHERE, repr=False)
    """The first place on the way that has no solution; the search returns from there at once"""
    _careful: int = field(default=0, repr=False)
    """How many choices are tested by a proof before they are made, since the last such choice was in vain"""
    _ends: int = field(default=0, repr=False)
    """Dead ends in a row where no proof was found"""
    _plain: bool = field(default=False, repr=False)
    """Whether a first way down can be found without arrays for each device"""
    _prover: Prover | None = field(default=None, repr=False)
    _equals: np.ndarray | None = field(default=None, repr=False)
    _later: list[int] = field(default_factory=list, repr=False)
    """Of each slot: how many devices later ones of its claim take at least"""

    def run(self) -> tuple[Choice, ...] | None:
        """The first solution; None if there is none.

        Raises Fatal if the search reaches a device that is an error, GaveUp if the steps are used up.
        """
        if not self.slots:
            return ()
        self._later = least_after(self.slots, self.by_slot) if self.pruned else [0] * len(self.slots)
        state = begin(self.problem, self.problem.constraints[self.slots[0].claim])
        plain = self.pruned and self.reach is None and self.charged is None
        if len(self.slots) == 1 or not plain or not takes_first(self.slots, self.by_slot, self.problem):
            return self._solve(0, state)
        self._plain, root = True, _Node(0, None, 0, 0, state)
        found = self._first_way(root)
        if found is not None:
            return found
        return None if self._proves_impossible(root) else self._solve(0, state)

    def _first_way(self, node: _Node) -> tuple[Choice, ...] | None:
        """The first way down from here, if it leads to a solution: then to the one that the search finds."""
        slot, rest, state = self._ahead(node)
        found = Descent(self.problem, state).run(self.slots[slot:], rest, self._later, slot)
        if found is None:
            return None
        self._step(len(found) - len(state.chosen))
        whole = node.candidates  # of which `_ahead` left only what remains
        return tuple(
            [one._replace(candidates=whole) if whole and one.slot == node.slot else one for one in found]
        )

    def _is_dead(self, depth: int) -> bool:
        """Whether the place so deep on the way has no solution, now that a choice there had none.

        Then neither has the place where the search turned back. The first such place on the way is sought
        from there, in steps that double, then by halving: what has no solution has none with more choices.
        The search goes on above it, as if it had tried everything below.
        """
        if not self.pruned:
            return False
        before = self._dead
        dead = self._first_dead() if before == NOWHERE else before
        if before == depth + 1:
            self._careful = CAREFUL
        self._dead = dead if dead <= depth else NOWHERE
        return dead <= depth

    def _first_dead(self) -> int:
        """The first place on the way that is proved to have no solution; behind the last one if none is."""
        ends = len(self._way)
        self._ends += 1
        if self._ends > MAX_FAILED_PROOFS and self._ends % PROOF_INTERVAL:
            return ends
        # All before `low` are open, all from `high` on are dead. Mostly nothing fits at all, or only the last
        # choice was wrong.
        low, high = max([at + 1 for at, node in enumerate(self._way) if node.open], default=0), ends
        step = 1
        while low < high:
            middle = 0 if low == 0 else max(high - step, (low + high) // 2)
            if self._proves_impossible(self._way[middle]):
                high, step = middle, 2 * step
            else:
                self._way[middle].open = True
                low = middle + 1
        if high < ends:
            self._ends = 0
        return high

    def _is_vain(self, node: _Node) -> bool:
        """Whether a choice that led here was in vain. Asked of the choices that follow on one such."""
        vain = self._proves_impossible(node)
        self._careful = CAREFUL if vain else self._careful - 1
        return vain

    def _proves_impossible(self, node: _Node) -> bool:
        if self._prover is None:
            self._prover = Prover(self.problem, MOST_WORK * self.max_steps // STEPS)
        slot, rest, state = self._ahead(node)
        return is_impossible(self._prover, self.slots[slot:], rest, state)

    def _ahead(self, node: _Node) -> tuple[int, list[Sequence[Candidates]], State]:
        """The next slot, what remains of it and of those that follow, and the state at the first choice."""
        slot, state = node.slot, node.state
        rest = [*self.by_slot[slot:]]
        if node.candidates is not None and node.count:
            rest[0] = [node.candidates.rest(node.count, node.start)]
        elif node.candidates is not None:
            slot, rest, state = slot + 1, rest[1:], self._entered(slot + 1, state)
        return slot, rest, state

    def _entered(self, slot: int, state: State) -> State:
        """The state at the first choice for a slot, which may belong to a later claim."""
        claim = self.slots[slot].claim
        if slot and self.slots[slot - 1].claim != claim:
            return enter_claim(state, self.problem.constraints[claim])
        return state

    def _solve(self, slot: int, state: State) -> tuple[Choice, ...] | None:
        if slot == len(self.slots):
            return self._accepted(state.chosen)
        state = self._entered(slot, state)
        depth = len(self._way)
        proved = slot == 0 and self._prover is not None  # by `run`, in vain
        self._way.append(_Node(slot, None, 0, 0, state, open=proved))
        found = None
        for candidates in self.by_slot[slot]:
            if state.results + candidates.count + self._later[slot] <= MAX_RESULTS and candidates.count:
                found = self._meet(slot, candidates, state)
            if found is not None or self._is_dead(depth):
                break
        self._way.pop()
        return found

    def _meet(self, slot: int, candidates: Candidates, state: State) -> tuple[Choice, ...] | None:
        if candidates.listed is not None:
            return self._take_all(slot, candidates, state)
        if self.pruned and self.reach is None and self.charged is None and slot + 1 == len(self.slots):
            rows = _finish(self.problem, candidates, state)
            if rows is not None:
                self._step(len(rows))
                last = tuple(Choice(slot, candidates, at) for at in rows.tolist())
                return (*state.chosen, *last) if last else None
        return self._pick(slot, candidates, state, 0, 0)

    def _pick(
        self, slot: int, candidates: Candidates, state: State, chosen: int, start: int
    ) -> tuple[Choice, ...] | None:
        """Choose the devices of an exact request, from the place `start` in their order on."""
        if chosen == candidates.count:
            return self._solve(slot + 1, state)
        depth = len(self._way)
        self._way.append(_Node(slot, candidates, candidates.count - chosen, start, state))
        found = self._pick_one(slot, candidates, state, chosen, start, depth)
        self._way.pop()
        return found

    def _pick_one(
        self, slot: int, candidates: Candidates, state: State, chosen: int, start: int, depth: int
    ) -> tuple[Choice, ...] | None:
        possible = viable(self.problem, state, candidates)
        fatal = candidates.fatal & ~in_use(state, candidates)
        failing = underived(self.problem, state, candidates)
        for devices in failing.values():
            fatal = fatal | devices
        order = candidates.in_order(possible | fatal, start)
        needed = candidates.count - chosen
        last_error = int(np.flatnonzero(fatal)[-1]) if fatal.any() else -1
        failed: set[int] = set()
        for place, at in enumerate(order.tolist()):
            if at > last_error and len(order) - place < needed:
                break
            if self.pruned and failed and int(self._class_of(at)) in failed and not fatal[at]:
                continue
            self._step()
            if fatal[at]:
                raise self._failure(candidates, failing, at)
            if needed == 1 and slot + 1 == len(self.slots):
                found = self._accepted((*state.chosen, Choice(slot, candidates, at)))
            else:
                following = choose(self.problem, state, slot, candidates, at)
                after = candidates.place_of(at) + 1
                next_ = _Node(slot, candidates, needed - 1, after, following)
                # Another choice than that of a first way down that failed.
                if self._plain and self._careful == CAREFUL:
                    found = self._first_way(next_)
                    if found is not None:
                        return found
                if self._careful and self._is_vain(next_):
                    failed.add(int(self._class_of(at)))
                    continue
                found = self._pick(slot, candidates, following, chosen + 1, after)
            if found is not None or self._is_dead(depth):
                return found
            if self.pruned:
                failed.add(int(self._class_of(at)))
        return None

    def _take_all(self, slot: int, candidates: Candidates, state: State) -> tuple[Choice, ...] | None:
        """Take every listed device, or none (SRCH-3)."""
        assert candidates.listed is not None
        for at in candidates.listed.tolist():
            self._step()
            if not viable(self.problem, state, candidates)[at]:
                failing = underived(self.problem, state, candidates)
                if any(devices[at] for devices in failing.values()):
                    raise self._failure(candidates, failing, at)
                self._check_constraints(candidates, state, at)
                return None
            state = choose(self.problem, state, slot, candidates, at)
        return self._solve(slot + 1, state)

    def _check_constraints(self, candidates: Candidates, state: State, at: int) -> None:
        """SEL-6: in mode All a violated constraint is an error, if the device would fit otherwise."""
        option, problem = candidates.option, self.problem
        if not before_constraints(problem, state, candidates)[at]:
            return
        for number in option.constraints:
            constraint = problem.constraints[option.claim][number]
            if not constraint.allowed(state.constraints[number], option)[at]:
                device = problem.snapshot.fleet.id_of(int(problem.rows[at]))
                violation = f"{device} violates the constraint on {constraint.attribute}"
                message = f"request {option.name} needs all devices, but {violation}"
                raise Fatal(Reason.CONSTRAINT_VIOLATED, message)

    def _failure(self, candidates: Candidates, failing: Mapping[str, Mask], at: int) -> Fatal:
        """The error of a device."""
        fleet, row = self.problem.snapshot.fleet, int(self.problem.rows[at])
        attribute = next((name for name, devices in failing.items() if devices[at]), None)
        if attribute is None:
            return candidates.failure(fleet, row, at)
        return derived_failure(candidates.option, attribute, fleet, row)

    def _accepted(self, chosen: tuple[Choice, ...]) -> tuple[Choice, ...] | None:
        """A solution, unless it leaves pods without nodes or without room on the node."""
        if self.charged is not None and not self.charged.accepts(chosen):
            return None
        return chosen if self.reach is None or self.reach.accepts(chosen) else None

    def _class_of(self, at: int) -> int:
        if self._equals is None:
            every = [candidates for of_slot in self.by_slot for candidates in of_slot]
            besides = [one.codes for one in (self.reach, self.charged) if one is not None]
            self._equals = equality_classes(self.problem, every, besides)
        return int(self._equals[at])

    def _step(self, devices: int = 1) -> None:
        self.budget.spend()
        self.steps += devices
        if self.steps > self.max_steps:
            raise GaveUp(f"gave up after {self.max_steps} steps")


def _finish(problem: NodeProblem, candidates: Candidates, state: State) -> Rows | None:
    """(count,) the devices the search would choose for the last request; empty if there are too few.

    Without counters, shares, errors and `distinctAttribute`, taking a device does not change what else fits,
    so the masks give them. None if that needs a search.
    """
    option = candidates.option
    constraints = [problem.constraints[option.claim][number] for number in option.constraints]
    if len(constraints) > 1 or not all(c.match and c.plain for c in constraints):
        return None
    if candidates.static.fails and (candidates.fatal.any() or candidates.static.underived is not None):
        return None
    bound = entangled(problem.view)
    if bound is not None and (candidates.available & bound).any():
        return None
    possible = viable(problem, state, candidates)
    rows = candidates.in_order(possible)
    if not constraints or state.constraints[option.constraints[0]] is not None:
        # Earlier requests have fixed the value, so `rows` are narrowed already.
        return rows[: candidates.count] if len(rows) >= candidates.count else rows[:0]
    codes = constraints[0].of(option)[rows]
    values = codes.tolist()
    for value in dict.fromkeys(values):  # the value that comes first wins
        if values.count(value) >= candidates.count:
            return rows[codes == value][: candidates.count]
    return rows[:0]
