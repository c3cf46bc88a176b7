"""Plans moves: the fields that gain most for the fewest moves, each move tried by the allocator itself.

The pods of a field move one after another, each to devices that are free at that moment, so every step fits.
No other field may lose what it holds of the goal (MOVE-2).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum

import numpy as np
from msgspec import Struct

from kernels.groups import distinct
from kernels.types import Codes, Rows
from reconciler.allocation.dra.budget import Fatal
from reconciler.allocation.dra.request_options import read_claims
from reconciler.allocation.dra.static_match import match_in_fleet
from reconciler.allocation.placement.placing import Placement
from reconciler.analysis.capacity.layout import first_sets
from reconciler.analysis.relocation import options
from reconciler.analysis.relocation.goals import AnyGoal, Held, Mover, rows_of
from reconciler.analysis.relocation.leaving import leave, settle
from reconciler.analysis.relocation.occupants import Occupants
from reconciler.analysis.world import NoFit, Place
from reconciler.errors import Rejected
from reconciler.state.devices.snapshot import Snapshot
from reconciler.state.nominations import devices_of
from reconciler.state.trial import Trial

MOST_TRIED = 24
"""Decisions for one pod"""
MOST_LOOKED_AT = 400
"""Devices for one pod that are compared with the goal before any is decided"""


class Ended(StrEnum):
    """A limit that ended a part of the search: what it left untried is said with the plan."""

    DECISIONS = "decisions"
    """Of a whole plan"""
    MOVES = "moves"
    """Of a whole plan"""
    STOPPED = "stopped"
    """Nobody wanted the plan any more"""
    STEPS = "steps"
    """Of one decision"""
    PLACES = "places"
    """That were tried for one pod"""
    SETS = "sets"
    """Of the pods in one place: only all of them together were considered"""
    ALTERNATIVES = "alternatives"
    """To the first plan that was found"""


class PlannedMove(Struct, frozen=True):
    """One pod, evicted and placed elsewhere by the allocator."""

    mover: Mover
    places: tuple[Place, ...]
    """One"""
    rows: Rows
    """(n,) the devices there"""


def carry_out(move: PlannedMove, occupants: Occupants, trial: Trial) -> None:
    """Count a pod at its new place."""
    leave(trial, frozenset([move.mover.key]), occupants)
    settle(move.places, [move.mover.pod], trial)


class Places:
    """Finds places for pods that have left in a trial."""

    def __init__(self, trial: Trial, steps: int) -> None:
        """`steps` limits each decision."""
        self._trial, self._steps = trial, steps
        self.tried = 0
        """Decisions so far"""
        self.ended: set[Ended] = set()
        """Limits that kept places from being tried"""

    def first(self, mover: Mover, worse: Codes, accepts: Callable[[Rows], bool]) -> PlannedMove | None:
        """A place for a pod; None if at most MOST_TRIED decisions find none.

        worse (D,)  devices with a higher number are tried later
        accepts     whether the pod may get some devices, (n,) rows
        """
        trial, snapshot, wanted = self._trial, self._trial.snapshot, mover.wanted
        fleet, topology = snapshot.fleet, snapshot.topology
        try:
            slots = read_claims(wanted.claims, snapshot.classes, snapshot.rules).slots
            placement = Placement(trial.nodes, supposed=trial.supposed)
            nodes = placement.before_binding(mover.pod, (), snapshot).nodes
        except (Fatal, Rejected):
            return None
        suits = np.logical_or.reduce(
            [match_in_fleet(option, snapshot).suitable for slot in slots for option in slot.options]
        )
        place = topology.place_of[fleet.codes["node"]]
        allowed = snapshot.occupancy.free & suits & (place >= 0)
        if nodes is not None:
            allowed &= nodes.mask[place]
        rows = np.flatnonzero(allowed)
        if len(slots) == 1 and len(mover.rows) == 1:
            tried = self._single(rows, worse, snapshot, accepts)
        else:
            tried = self._nodes(rows, len(mover.rows), worse, snapshot)
        for number, (node, among) in enumerate(tried):
            if number == MOST_TRIED:
                self.ended.add(Ended.PLACES)
                break
            move = self.on(mover, node, among)
            if move is not None and accepts(move.rows):
                return move
        return None

    def on(self, mover: Mover, node: str, among: Rows) -> PlannedMove | None:
        """The allocator's answer on one node with some devices."""
        self.tried += 1
        found = mover.wanted.place(self._trial, on=node, only=among, steps=self._steps)
        if isinstance(found, NoFit):
            self.ended |= set() if found.proven else {Ended.STEPS}
            return None
        devices = dict.fromkeys(devices_of(plan for one in found for plan in one.plans))
        return PlannedMove(mover, found, rows_of(devices, self._trial.snapshot.fleet))

    def _single(
        self, rows: Rows, worse: Codes, snapshot: Snapshot, accepts: Callable[[Rows], bool]
    ) -> Iterator[tuple[str, Rows]]:
        """Single devices: where the fewest others are free first, in their counter set or else their node."""
        fleet = snapshot.fleet
        first, node = first_sets(fleet), fleet.codes["node"].astype(np.int32) + 1 + len(fleet.totals)
        group = np.where(first >= 0, first, node).astype(np.int32)
        free = np.bincount(group[snapshot.occupancy.free], minlength=int(group.max(initial=0)) + 1)
        order = rows[np.lexsort((rows, free[group[rows]], worse[rows]))]
        names = fleet.vocabulary.nodes.values
        for row in order[:MOST_LOOKED_AT].tolist():
            if accepts(np.array([row], dtype=np.intp)):
                yield names[fleet.codes["node"][row]], np.array([row], dtype=np.intp)
        if len(order) > MOST_LOOKED_AT:
            self.ended.add(Ended.PLACES)

    @staticmethod
    def _nodes(rows: Rows, devices: int, worse: Codes, snapshot: Snapshot) -> Iterator[tuple[str, Rows]]:
        """Nodes with enough devices: those with enough that are not worse first, then the fullest."""
        codes = snapshot.fleet.codes["node"]
        names = snapshot.fleet.vocabulary.nodes.values
        free = np.bincount(codes[snapshot.occupancy.free & (codes >= 0)], minlength=len(names))
        for level in distinct(worse[rows]).tolist():
            among = rows[worse[rows] <= level]
            enough = np.flatnonzero(np.bincount(codes[among], minlength=len(names)) >= devices)
            for code in enough[np.lexsort((enough, free[enough]))].tolist():
                yield names[code], among[codes[among] == code]


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


class PlannedStep(Struct, frozen=True):
    """The moves that empty a place."""

    option: options.Option
    gain: int
    moves: tuple[PlannedMove, ...]


class Plan(Struct, frozen=True):
    """What is planned, and what cannot be beaten."""

    steps: tuple[PlannedStep, ...]
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
        goal: AnyGoal,
        movers: Sequence[Mover],
        occupants: Occupants,
        trial: Trial,
        steps: int,
        limit: Limit | None = None,
    ) -> None:
        """`steps` limits each decision, `limit` the whole plan."""
        self._limit = Limit() if limit is None else limit
        self._goal, self._movers, self._occupants, self._trial = goal, movers, occupants, trial
        self._places, self._holds = Places(trial, steps), Held.of(trial)
        snapshot = trial.snapshot
        room = options.most_by_amounts(goal, movers, self._holds, snapshot)
        self._blockers = options.Blockers(goal, movers, snapshot)
        counts = [goal.count(at, self._holds).least for at in range(goal.fields)]
        self._counts: Codes = np.array(counts, dtype=np.int32)
        """(fields,) how many each field holds"""
        self._start = self._holds.copy(), self._counts.copy()
        self._mark = trial.mark()
        self._ended: set[Ended] = set()
        self._bounds: dict[int, int | None] = {}
        found = (self._blockers.options_of(at, self._holds) for at in range(goal.fields))
        self._fields = [one for one in found if one is not None]
        crowded = any(len(inside) > options.MOST_IN_FIELD for inside in self._blockers.of_field.values())
        if crowded and not goal.all_or_nothing:
            self._ended.add(Ended.SETS)
        self._sizes = [mover.size(self._holds.fleet) for mover in movers]
        self.before = sum(counts)
        """How many there are before any move"""
        by_field = sum(one.most for one in self._fields)
        self.most = by_field if room is None else max(min(by_field, room - self.before), 0)
        """No plan gains more: by what each field holds without its pods, and by all that is free"""

    def run(self, wanted: int) -> Plan:
        """Gain so much, or as much as is found. The trial then has the state after all moves."""
        best = self._greedy(wanted, None)
        limit, banned = self._places.tried + EXTRA_DECISIONS, set[options.Option]()
        while not self._is_best(best, wanted):
            without = next((step.option for step in best if step.option not in banned), None)
            if without is None:
                break
            if self._places.tried >= limit or not self._limit.more():
                self._ended.add(Ended.ALTERNATIVES)
                break
            banned.add(without)
            best = max(best, self._greedy(wanted, without), key=lambda steps: _worth(steps, wanted))
        self._redo(best)
        gained = _gain(best)
        ended = set() if self._is_best(best, wanted) else self._ended | self._places.ended
        return Plan(best, gained, self.most, self._fewest(min(wanted, gained)), tuple(sorted(ended)))

    def _is_best(self, steps: tuple[PlannedStep, ...], wanted: int) -> bool:
        """Whether the bounds leave no room for a better plan."""
        gained = min(_gain(steps), wanted)
        return gained >= min(wanted, self.most) and _moves(steps) <= (self._fewest(gained) or 0)

    def _fewest(self, gain: int) -> int | None:
        if gain not in self._bounds:
            self._bounds[gain] = options.fewest_moves(self._fields, gain) if gain > 0 else 0
        return self._bounds[gain]

    def _greedy(self, wanted: int, without: options.Option | None) -> tuple[PlannedStep, ...]:
        """From the start, always the option that needs the fewest moves for its gain; never one of them."""
        self._redo(())
        left = [option for one in self._fields for option in one.options if option != without]
        done: list[PlannedStep] = []
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
                rows = [rows for move in step.moves for rows in (move.mover.rows, move.rows)]
                changed = self._goal.fields_of(np.concatenate(rows))
                left = [one for one in left if one.field not in changed]
                left += [one for at in changed for one in self._again(at, moved) if one != without]
        return tuple(done)

    def _limit_of(self, done: Sequence[PlannedStep]) -> Ended | None:
        """The limit that has been reached, if any."""
        limit = self._limit
        if limit.moves is not None and _moves(done) >= limit.moves:
            return Ended.MOVES
        if self._places.tried >= limit.decisions:
            return Ended.DECISIONS
        return None if limit.more() else Ended.STOPPED

    def _again(self, field: int, moved: set[int]) -> Iterator[options.Option]:
        """What a field that changed may gain now. Nobody moves twice."""
        inside = [at for at in self._blockers.of_field.get(field, ()) if at not in moved]
        return self._blockers.sets_of(inside, field, self._holds)

    def _redo(self, steps: Iterable[PlannedStep]) -> None:
        """Go back to the start, and repeat some steps."""
        self._trial.back_to(self._mark)
        self._holds, self._counts = self._start[0].copy(), self._start[1].copy()
        for move in (move for step in steps for move in step.moves):
            carry_out(move, self._occupants, self._trial)

    def _rank(self, option: options.Option, wanted: int) -> tuple[float, int, int, tuple[int, ...]]:
        """Fewest moves for what is still wanted; then the smallest pods, which find a place more easily."""
        size = sum(self._sizes[at] for at in option.movers)
        return len(option.movers) / min(option.gain, wanted), size, option.field, option.movers

    def _try(self, option: options.Option) -> PlannedStep | None:
        """Move the pods of an option; None if one of them has no place. Then nothing changed.

        Each is placed where no field holds too few with all pods of the option gone or in their new places:
        its field as many as it is to have in the end, the others as many as they have.
        """
        mark, goal, trial = self._trial.mark(), self._goal, self._trial
        holds, counts = self._holds.copy(), self._counts.copy()

        def count(rows: Rows) -> None:
            for field in goal.fields_of(rows):
                counts[field] = goal.count(field, holds).least

        def accepts(rows: Rows) -> bool:
            holds.take(rows)
            fine = all(
                goal.count(field, holds).least >= (level if field == option.field else counts[field])
                for field in goal.fields_of(rows)
            )
            holds.give_back(rows)
            return fine

        movers = [self._movers[at] for at in sorted(option.movers, key=lambda at: (-self._sizes[at], at))]
        level = int(counts[option.field]) + option.gain
        for mover in movers:
            holds.give_back(mover.rows)
            count(mover.rows)
        moves: list[PlannedMove] = []
        for mover in movers:
            leave(trial, frozenset([mover.key]), self._occupants)
            worse = np.append(counts > 0, False)[goal.of].astype(np.int32)  # something can be lost there
            move = self._places.first(mover, worse, accepts)
            if move is None:
                trial.back_to(mark)
                return None
            holds.take(move.rows)
            count(move.rows)
            settle(move.places, [mover.pod], trial)
            moves.append(move)
        gain = int(counts.sum() - self._counts.sum())
        self._holds, self._counts = holds, counts
        return PlannedStep(option, gain, tuple(moves))


def _gain(steps: Iterable[PlannedStep]) -> int:
    return sum(step.gain for step in steps)


def _moves(steps: Iterable[PlannedStep]) -> int:
    return sum(len(step.moves) for step in steps)


def _worth(steps: tuple[PlannedStep, ...], wanted: int) -> tuple[int, int]:
    """More gain is better, up to what is wanted; then fewer moves."""
    return min(_gain(steps), wanted), -_moves(steps)
