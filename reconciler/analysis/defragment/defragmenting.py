"""Answers which pods to move: finds the goal and the pods, plans, and describes the plan."""

from collections.abc import Callable, Iterable

from kernels.distinct import distinct
from reconciler.allocation.defaults import STEPS
from reconciler.analysis.capacity import Solver, fleet_layout, lines, measure
from reconciler.analysis.capacity.layout import FleetLayout
from reconciler.analysis.defragment.answer import Answer, Move, Picture, ProfileChange, Step
from reconciler.analysis.defragment.goals import Goal
from reconciler.analysis.defragment.movers import MayMove, anyone, movers_of
from reconciler.analysis.defragment.picture import cells_of
from reconciler.analysis.defragment.planner import Limit, Plan, PlannedMove, Planner
from reconciler.analysis.defragment.target import Target, goal_of
from reconciler.analysis.making_room.world import World
from reconciler.api.objects.meta import DeviceID
from reconciler.api.objects.pods import controller_of
from reconciler.state.devices.pools.fleet import Fleet
from reconciler.state.devices.snapshot.snapshot import Snapshot

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
            Step(goal.name(step.field), step.gain, tuple(_move(move, before.fleet) for move in step.moves))
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


def _move(planned: PlannedMove, fleet: Fleet) -> Move:
    mover = planned.mover
    controller = controller_of(mover.pod)
    assert controller is not None  # it would not be movable
    return Move(
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
