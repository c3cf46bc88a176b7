"""Which pods to move so that more is free at once, and whether the rest of a plan holds. Source: MOVE-5."""

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
from msgspec import Struct

from kernels.groups import distinct
from kernels.types import Rows
from reconciler.allocation.dra.budget import STEPS
from reconciler.analysis.capacity.layout import FleetLayout, fleet_layout
from reconciler.analysis.capacity.lines import lines
from reconciler.analysis.capacity.measure import measure
from reconciler.analysis.capacity.profiles import families
from reconciler.analysis.capacity.solver import Solver
from reconciler.analysis.relocation.goals import Goal, Target, goal_of
from reconciler.analysis.relocation.movers import MayMove, anyone, holds_of, movers_of
from reconciler.analysis.relocation.moves_planner import Limit, Plan, PlannedMove, Planner
from reconciler.analysis.relocation.places import Ended, Places
from reconciler.analysis.relocation.world import World
from reconciler.api.objects.core import controller_of
from reconciler.api.objects.meta import DeviceID, ObjectKey, OwnerReference
from reconciler.errors import Rejected
from reconciler.state.devices.fleet import Fleet
from reconciler.state.devices.snapshot import Snapshot

Cells = tuple[ObjectKey | None, ...]
"""The claim that holds each place; None for a free one"""


def cells_of(goal: Goal, at: int, snapshot: Snapshot) -> Cells:
    """The places of a field: numbered counters such as memory slices, or else the devices."""
    rows = np.flatnonzero(goal.of == at)
    return tuple(_cells(rows, snapshot))


def _cells(rows: Rows, snapshot: Snapshot) -> Iterator[ObjectKey | None]:
    fleet, occupancy = snapshot.fleet, snapshot.occupancy
    held = rows[occupancy.held[rows] | occupancy.sharing[rows]]
    claim_of = {row: next(iter(occupancy.claims_of(fleet.id_of(row))), None) for row in held.tolist()}
    drawing = fleet.sets[rows]
    sets = distinct(drawing[drawing >= 0]).tolist()
    for number in sets:
        for counter in _numbered(number, snapshot):
            yield next(
                (claim_of[row] for row in held.tolist() if _draws(row, number, counter, snapshot)), None
            )
    if not sets:
        yield from (claim_of.get(row) for row in rows.tolist())


def _numbered(number: int, snapshot: Snapshot) -> list[int]:
    """The counters of the largest family of a set, in order; of equal ones the first by name."""
    names, of_counter = families(snapshot.fleet.set_columns[number].scale)
    family = max(range(len(names)), key=lambda at: (of_counter.count(at), -at), default=0)
    return [counter for counter, of in enumerate(of_counter) if of == family]


def _draws(row: int, number: int, counter: int, snapshot: Snapshot) -> bool:
    fleet = snapshot.fleet
    pairs = zip(fleet.sets[row].tolist(), fleet.draws[row].tolist(), strict=True)
    return any(one == number and fleet.table[draw, counter] > 0 for one, draw in pairs)


class PodMove(Struct, frozen=True):
    """One pod to evict, and where its replacement fits."""

    pod: ObjectKey
    controller: OwnerReference
    claims: tuple[ObjectKey, ...]
    node: str
    devices: tuple[DeviceID, ...]
    """What it holds now"""
    to_node: str
    to_devices: tuple[DeviceID, ...]


class GainStep(Struct, frozen=True):
    """Moves that gain something together."""

    place: str
    """The counter set, group or node that gains"""
    gain: int
    moves: tuple[PodMove, ...]


class Picture(Struct, frozen=True):
    """One place before and after all moves."""

    place: str
    before: Cells
    after: Cells


class ProfileChange(Struct, frozen=True):
    """How many devices of one profile fit at once."""

    driver: str
    profile: str
    before: int
    after: int


class Answer(Struct, frozen=True):
    """The whole answer."""

    title: str
    """What is counted, in the singular"""
    before: int
    wanted: int
    """How much to gain"""
    gain: int
    most: int
    """No plan gains more"""
    fewest: int | None
    """No plan with this gain, or with the gain that was wanted, has fewer moves"""
    ended: tuple[Ended, ...]
    """Limits that left something untried; none if the bounds prove that no plan is better"""
    steps: tuple[GainStep, ...]
    pictures: tuple[Picture, ...]
    profiles: tuple[ProfileChange, ...]

    @property
    def moves(self) -> tuple[PodMove, ...]:
        """All moves, in order."""
        return tuple(move for step in self.steps for move in step.moves)

    @property
    def gave_up(self) -> bool:
        """Whether a better plan may have been left untried."""
        return bool(self.ended)

    @property
    def reached(self) -> bool:
        """Whether as much is gained as was wanted."""
        return self.gain >= self.wanted

    @property
    def optimal(self) -> bool:
        """Whether it is proven that no plan has fewer moves."""
        return self.reached and len(self.moves) == (self.fewest or 0)


EFFORT = 200_000
"""Choices examined to count what fits before and after"""


def defragment(
    target: Target,
    world: World,
    *,
    layout: FleetLayout | None = None,
    steps: int = STEPS,
    may_move: MayMove = anyone,
    limit: Limit | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Answer:
    """The moves that reach a target. Raises Rejected if the fleet has nothing of its name.

    `layout` is that of the world's fleet, if the caller has it; `may_move` asks more of pods than MOVE-1
    does; `limit` says when to give up. The world changes for the time of the call only.
    """
    before = world.store.snapshot()
    layout = layout or fleet_layout(before.fleet, before.rules)
    goal = goal_of(target, layout)
    progress("looking for pods that can move")
    movers = movers_of(world, may_move)
    with world.trial() as trial:
        planner = Planner(goal, movers, world, trial, steps, limit)
        progress("planning moves")
        wanted = target.wanted(planner.before, planner.most)
        plan = planner.run(wanted)
        fields = _concerned(plan, goal)
        after = trial.snapshot
        changes = _changes(layout, before, after)
        later = [cells_of(goal, at, after) for at in fields]
    # The holders in a snapshot are those of the present: here, the moves are undone.
    now = [cells_of(goal, at, before) for at in fields]
    return Answer(
        title=goal.title,
        before=planner.before,
        wanted=wanted,
        gain=plan.gain,
        most=plan.most,
        fewest=plan.fewest,
        ended=plan.ended,
        steps=tuple(
            GainStep(
                goal.name(step.field), step.gain, tuple(_move(move, before.fleet) for move in step.moves)
            )
            for step in plan.steps
        ),
        pictures=tuple(
            Picture(goal.name(at), one, other) for at, one, other in zip(fields, now, later, strict=True)
        ),
        profiles=changes,
    )


def _concerned(plan: Plan, goal: Goal) -> list[int]:
    """The fields that gain, then those where pods go."""
    into = [
        int(field)
        for move in plan.moves
        for field in distinct(goal.of[move.place.rows]).tolist()
        if field >= 0
    ]
    return list(dict.fromkeys([*(step.field for step in plan.steps), *into]))


def _move(planned: PlannedMove, fleet: Fleet) -> PodMove:
    mover = planned.mover
    controller = controller_of(mover.pod)
    assert controller is not None  # it would not be movable
    return PodMove(
        pod=mover.key,
        controller=controller,
        claims=tuple(claim.key for claim in mover.claims),
        node=mover.node,
        devices=_ids(mover.rows.tolist(), fleet),
        to_node=planned.place.granted.node,
        to_devices=_ids(planned.place.rows.tolist(), fleet),
    )


def _ids(rows: Iterable[int], fleet: Fleet) -> tuple[DeviceID, ...]:
    return tuple(fleet.id_of(row) for row in rows)


def _changes(layout: FleetLayout, before: Snapshot, after: Snapshot) -> tuple[ProfileChange, ...]:
    """What fits of each profile, as `top` counts it."""
    solver = Solver(effort=EFFORT)
    counted = [
        {(line.driver, one.profile): one.fits for line in lines(measured, "driver") for one in line.profiles}
        for measured in (measure(layout, one.occupancy, solver) for one in (before, after))
    ]
    return tuple(
        ProfileChange(driver, profile, fits, counted[1].get((driver, profile), 0))
        for (driver, profile), fits in counted[0].items()
    )


def problem(
    moves: Sequence[PodMove],
    target: Target,
    after: int,
    world: World,
    *,
    layout: FleetLayout | None = None,
    steps: int = STEPS,
    may_move: MayMove = anyone,
) -> str:
    """Why these moves, in their order, do not lead to `after` of what is counted any more. Empty if they do.

    `layout` is that of the world's fleet, if the caller has it. The world changes for the time of the call
    only.
    """
    snapshot = world.store.snapshot()
    try:
        goal = goal_of(target, layout or fleet_layout(snapshot.fleet, snapshot.rules))
    except Rejected as exc:
        return str(exc)
    movers = {mover.key: mover for mover in movers_of(world, may_move)}
    holds, places = holds_of(world), Places(world.placement(), steps)
    with world.trial() as trial:
        for move in moves:
            mover = movers.get(move.pod)
            if mover is None:
                return f"pod {move.pod} may not be moved any more"
            if {snapshot.fleet.id_of(row) for row in mover.rows.tolist()} != set(move.devices):
                return f"pod {move.pod} holds other devices"
            for claim in mover.claims:
                trial.release(claim.metadata.uid)
            trial.remove(mover.key)
            rows = _rows(move.to_devices, snapshot.fleet)
            choice = world.placement().before_binding(mover.pod, (), trial.snapshot)
            suits = choice.nodes is None or move.to_node in choice.nodes
            place = places.decide(mover, trial.snapshot, move.to_node, rows) if suits else None
            if place is None or set(place.rows.tolist()) != set(rows.tolist()):
                return f"what replaces pod {move.pod} does not fit on {move.to_node} any more"
            trial.place(place.granted.plans, mover.pod, move.to_node)
            holds.give_back(mover.rows)
            holds.take(place.rows)
    counted = sum(goal.count(at, holds).least for at in range(goal.fields))
    return "" if counted >= after else f"only {counted} would be free, not {after}"


def _rows(devices: Sequence[DeviceID], fleet: Fleet) -> Rows:
    return np.array([row for device in devices for row in fleet.rows_of(device)], dtype=np.intp)
