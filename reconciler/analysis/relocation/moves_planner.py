"""Plans moves: the fields that gain most for the fewest moves, each move tried by the allocator itself.

The pods of a field move one after another, each to devices that are free at that moment, so every step fits.
No other field may lose what it holds of the goal (MOVE-2).
"""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from msgspec import Struct

from reconciler.analysis.relocation.goals import Goal, ProfileGoal
from reconciler.analysis.relocation.movers import Mover, holds_of, size_of
from reconciler.analysis.relocation.options import (
    MOST_IN_FIELD,
    Blockers,
    Option,
    alike,
    fewest_moves,
    most_by_amounts,
    options_of,
    sets_of,
)
from reconciler.analysis.relocation.places import Ended, Future, PlaceOfMover, Places
from reconciler.analysis.relocation.world import World
from reconciler.state.trial import Trial

MOST_DECISIONS = 5_000
"""Decisions of one plan, after which it is given up"""
EXTRA_DECISIONS = 60
"""Decisions after the first plan, to look for a better one without one of its steps"""


class Limit(Struct, frozen=True):
    """When the search gives up. What was found until then is the plan."""

    decisions: int = MOST_DECISIONS
    moves: int | None = None
    """Moves from which on nothing is added; None for any number"""
    more: Callable[[], bool] = lambda: True
    """Whether somebody still wants the plan"""


class PlannedMove(Struct, frozen=True):
    """One pod, evicted and placed elsewhere."""

    mover: Mover
    place: PlaceOfMover


class Step(Struct, frozen=True):
    """The moves that empty a place."""

    option: Option
    gain: int
    moves: tuple[PlannedMove, ...]

    @property
    def field(self) -> int:
        """Where the gain is."""
        return self.option.field


class Plan(Struct, frozen=True):
    """What is planned, and what cannot be beaten."""

    steps: tuple[Step, ...]
    gain: int
    most: int
    """No plan gains more"""
    fewest: int | None
    """No plan with so much gain has fewer moves"""
    ended: tuple[Ended, ...]
    """Limits that left something untried; none if the bounds prove that no plan is better"""

    @property
    def moves(self) -> tuple[PlannedMove, ...]:
        """All moves, in order."""
        return tuple(move for step in self.steps for move in step.moves)


class Planner:
    """Plans on a trial. The caller undoes it."""

    def __init__(
        self,
        goal: Goal,
        movers: Sequence[Mover],
        world: World,
        trial: Trial,
        steps: int,
        limit: Limit | None = None,
    ) -> None:
        """`steps` limits each decision, `limit` the whole plan."""
        self._limit = Limit() if limit is None else limit
        self._goal = goal
        self._movers = movers
        self._trial = trial
        self._places = Places(world.placement(), steps)
        self._holds = holds_of(world)
        snapshot = trial.snapshot
        similar = alike(goal, movers, snapshot) if isinstance(goal, ProfileGoal) else ()
        self._room = most_by_amounts(goal, movers, self._holds, snapshot)
        """How many there are at most by free amounts"""
        self._blockers = Blockers(goal, movers, similar)
        self._counts = np.array(
            [goal.count(at, self._holds).least for at in range(goal.fields)], dtype=np.int32
        )
        self._before = int(self._counts.sum())
        self._start = self._holds.copy(), self._counts.copy()
        self._mark = trial.mark()
        self._bounds: dict[int, int | None] = {}
        self._ended: set[Ended] = set()
        found = (options_of(at, goal, self._holds, movers, self._blockers) for at in range(goal.fields))
        self._fields = [one for one in found if one is not None]
        crowded = any(len(inside) > MOST_IN_FIELD for inside in self._blockers.of_field.values())
        if crowded and not goal.all_or_nothing:
            self._ended.add(Ended.SETS)
        self._sizes = [size_of(mover, self._holds.fleet) for mover in movers]

    @property
    def before(self) -> int:
        """How many there are before any move."""
        return self._before

    @property
    def most(self) -> int:
        """No plan gains more: by what each field holds without its pods, and by all that is free."""
        by_field = sum(one.most for one in self._fields)
        return by_field if self._room is None else max(min(by_field, self._room - self._before), 0)

    def run(self, wanted: int) -> Plan:
        """Gain so much, or as much as is found. The trial then has the state after all moves."""
        best = self._greedy(wanted, None)
        limit, banned = self._places.tried + EXTRA_DECISIONS, set[Option]()
        while not self._is_best(best, wanted):
            without = next((step.option for step in best if step.option not in banned), None)
            if without is None:
                break
            if self._places.tried >= limit or not self._limit.more():
                self._ended.add(Ended.ALTERNATIVES)
                break
            banned.add(without)
            other = self._greedy(wanted, without)
            if _worth(other, wanted) > _worth(best, wanted):
                best = other
        self._redo(best)
        gained = _gain(best)
        ended = set() if self._is_best(best, wanted) else self._ended | self._places.ended
        return Plan(best, gained, self.most, self._fewest(min(wanted, gained)), tuple(sorted(ended)))

    def _is_best(self, steps: tuple[Step, ...], wanted: int) -> bool:
        """Whether the bounds leave no room for a better plan."""
        gained = min(_gain(steps), wanted)
        enough = gained >= min(wanted, self.most)
        return enough and _moves(steps) <= (self._fewest(gained) or 0)

    def _fewest(self, gain: int) -> int | None:
        if gain not in self._bounds:
            self._bounds[gain] = fewest_moves(self._fields, gain) if gain > 0 else 0
        return self._bounds[gain]

    def _greedy(self, wanted: int, without: Option | None) -> tuple[Step, ...]:
        """From the start, always the option that needs the fewest moves for its gain; never one of them."""
        self._redo(())
        left = [option for one in self._fields for option in one.options if option != without]
        done: list[Step] = []
        moved = set[int]()
        while (missing := wanted - _gain(done)) > 0 and left:
            if (ended := self._limit_of(done)) is not None:
                self._ended.add(ended)
                break
            option = min(left, key=lambda one: self._rank(one, missing))
            left.remove(option)
            step = self._try(option) if moved.isdisjoint(option.movers) else None
            if step is not None:
                done.append(step)
                moved.update(option.movers)
                changed = self._changed(step)
                left = [one for one in left if one.field not in changed]
                left += [one for at in sorted(changed) for one in self._again(at, moved) if one != without]
        return tuple(done)

    def _limit_of(self, done: Sequence[Step]) -> Ended | None:
        """The limit that has been reached, if any."""
        limit = self._limit
        if limit.moves is not None and _moves(done) >= limit.moves:
            return Ended.MOVES
        if self._places.tried >= limit.decisions:
            return Ended.DECISIONS
        return None if limit.more() else Ended.STOPPED

    def _changed(self, step: Step) -> set[int]:
        """The fields that pods of a step left or entered."""
        rows = [rows for move in step.moves for rows in (move.mover.rows, move.place.rows)]
        return set(self._goal.of[np.concatenate(rows)].tolist()) - {-1}

    def _again(self, field: int, moved: set[int]) -> Iterable[Option]:
        """What a field that changed may gain now. Nobody moves twice."""
        inside = [at for at in self._blockers.of_field.get(field, ()) if at not in moved]
        useless = self._blockers.alike
        return sets_of(inside, field, self._goal, self._holds, self._movers, useless=useless)

    def _redo(self, steps: Iterable[Step]) -> None:
        """Go back to the start, and repeat some steps."""
        self._trial.back_to(self._mark)
        self._holds, self._counts = self._start[0].copy(), self._start[1].copy()
        for move in (move for step in steps for move in step.moves):
            self._evict(move.mover)
            self._trial.place(move.place.granted.plans, move.mover.pod, move.place.granted.node)

    def _rank(self, option: Option, wanted: int) -> tuple[float, int, int, tuple[int, ...]]:
        """Fewest moves for what is still wanted; then the smallest pods, which find a place more easily."""
        size = sum(self._sizes[at] for at in option.movers)
        return option.moves / min(option.gain, wanted), size, option.field, option.movers

    def _try(self, option: Option) -> Step | None:
        """Move the pods of an option; None if one of them has no place. Then nothing changed."""
        mark = self._trial.mark()
        future = Future(self._goal, self._holds.copy(), self._counts.copy())
        future.leave([self._movers[at] for at in option.movers])
        future.require(option.field, int(self._counts[option.field]) + option.gain)
        moves: list[PlannedMove] = []
        for at in sorted(option.movers, key=lambda at: (-self._sizes[at], at)):
            place = self._move(self._movers[at], future)
            if place is None:
                self._trial.back_to(mark)
                return None
            moves.append(PlannedMove(self._movers[at], place))
        gain = int(future.counts.sum() - self._counts.sum())
        self._holds, self._counts = future.holds, future.counts
        return Step(option, gain, tuple(moves))

    def _move(self, mover: Mover, future: Future) -> PlaceOfMover | None:
        """Evict a pod and place it where no field loses; None if there is no such place."""
        trial = self._trial
        self._evict(mover)
        places = self._places.of(mover, trial.snapshot, future.worse(), future.accepts)
        place = next(places, None)
        if place is not None:
            future.enter(place.rows)
            trial.place(place.granted.plans, mover.pod, place.granted.node)
        return place

    def _evict(self, mover: Mover) -> None:
        """Count a pod as gone, and its devices as free."""
        for claim in mover.claims:
            self._trial.release(claim.metadata.uid)
        self._trial.remove(mover.key)


def _gain(steps: Iterable[Step]) -> int:
    return sum(step.gain for step in steps)


def _moves(steps: Iterable[Step]) -> int:
    return sum(len(step.moves) for step in steps)


def _worth(steps: tuple[Step, ...], wanted: int) -> tuple[int, int]:
    """More gain is better, up to what is wanted; then fewer moves."""
    return min(_gain(steps), wanted), -_moves(steps)
