"""Which pods to move so that more is free at once, and whether the rest of a plan holds. Source: MOVE-5."""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from kernels.groups import distinct
from kernels.types import Rows
from reconciler.allocation.dra.budget import STEPS
from reconciler.analysis.capacity.layout import FleetLayout, families, fleet_layout
from reconciler.analysis.capacity.lines import lines
from reconciler.analysis.capacity.measure import Solver, measure
from reconciler.analysis.relocation import goals, moves_planner
from reconciler.analysis.relocation.leaving import leave, settle
from reconciler.analysis.relocation.occupants import Occupants
from reconciler.analysis.world import World
from reconciler.api.objects.core import controller_of
from reconciler.api.objects.meta import DeviceID, ObjectKey, OwnerReference
from reconciler.errors import Rejected
from reconciler.state.devices.fleet import Fleet
from reconciler.state.devices.snapshot import Snapshot
from reconciler.state.nominations import devices_of

EFFORT = 200_000
"""Choices examined to count what fits before and after"""
Cells = tuple[ObjectKey | None, ...]
"""The claim that holds each place; None for a free one"""


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

    def as_json(self) -> dict[str, Any]:
        """The field names are stable."""
        return {
            "pod": str(self.pod),
            "controller": f"{self.controller.kind}/{self.controller.name}",
            "claims": [str(key) for key in self.claims],
            "from": {"node": self.node or None, "devices": [one._asdict() for one in self.devices]},
            "to": {"node": self.to_node or None, "devices": [one._asdict() for one in self.to_devices]},
        }


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
    """The moves in order, what they gain, and what cannot be beaten."""

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
    ended: tuple[moves_planner.Ended, ...]
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

    @property
    def evictions(self) -> Iterator[str]:
        """The evictions in order, as kubectl commands. Wait for each replacement before the next one."""
        for namespace, name in (move.pod for move in self.moves):
            metadata = {"name": name, "namespace": namespace}
            body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
            path = f"/api/v1/namespaces/{namespace}/pods/{name}/eviction"
            yield f"echo '{json.dumps(body)}' | kubectl create --raw {path} -f -"

    def as_json(self) -> dict[str, Any]:
        """The field names are stable."""
        return {
            "counted": self.title,
            "before": self.before,
            "after": self.before + self.gain,
            "gain": self.gain,
            "gainWanted": self.wanted,
            "gainAtMost": self.most,
            "reached": self.reached,
            "gaveUp": self.gave_up,
            "limitsReached": list(self.ended),
            "moves": len(self.moves),
            "movesAtLeast": self.fewest,
            "optimal": self.optimal,
            "steps": [
                {"place": step.place, "gain": step.gain, "moves": [move.as_json() for move in step.moves]}
                for step in self.steps
            ],
            "places": [
                {"place": one.place, "before": _names(one.before), "after": _names(one.after)}
                for one in self.pictures
            ],
            "profiles": [
                {"driver": one.driver, "profile": one.profile, "before": one.before, "after": one.after}
                for one in self.profiles
            ],
            "evictions": list(self.evictions),
        }


def _names(cells: Cells) -> list[str | None]:
    return [str(claim) if claim is not None else None for claim in cells]


def defragment(
    target: goals.Target,
    world: World,
    *,
    layout: FleetLayout | None = None,
    steps: int = STEPS,
    may_move: goals.MayMove = goals.anyone,
    limit: moves_planner.Limit | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Answer:
    """The moves that reach a target. Raises Rejected if the fleet has nothing of its name.

    `layout` is that of the world's fleet, if the caller has it; `may_move` asks more of pods than MOVE-1
    does; `limit` says when to give up. The world changes for the time of the call only.
    """
    before = world.store.snapshot()
    layout = layout or fleet_layout(before.topology)
    goal = goals.goal_of(target, layout)
    progress("looking for pods that can move")
    occupants = Occupants(world)
    movers = goals.movers_of(occupants, world.store, may_move)
    with world.trial() as trial:
        planner = moves_planner.Planner(goal, movers, occupants, trial, steps, limit)
        progress("planning moves")
        wanted = target.wanted(planner.before, planner.most)
        plan = planner.run(wanted)
        fields = _concerned(plan, goal)
        after = trial.snapshot
        changes = _changes(layout, before, after)
        later = [_cells_of(goal, at, after) for at in fields]
    # The holders in a snapshot are those of the present: here, the moves are undone.
    now = [_cells_of(goal, at, before) for at in fields]
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
                goal.names[step.option.field],
                step.gain,
                tuple(map(_pod_move, step.moves)),
            )
            for step in plan.steps
        ),
        pictures=tuple(
            Picture(goal.names[at], one, other) for at, one, other in zip(fields, now, later, strict=True)
        ),
        profiles=changes,
    )


def _concerned(plan: moves_planner.Plan, goal: goals.AnyGoal) -> list[int]:
    """The fields that gain, then those where pods go."""
    into = [field for move in plan.moves for field in goal.fields_of(move.rows)]
    return list(dict.fromkeys([*(step.option.field for step in plan.steps), *into]))


def _pod_move(planned: moves_planner.PlannedMove) -> PodMove:
    mover, (place,) = planned.mover, planned.places
    controller = controller_of(mover.pod)
    assert controller is not None  # it would not be movable
    to_devices = devices_of(place.plans)
    return PodMove(mover.key, controller, mover.claims, mover.node, mover.devices, place.node, to_devices)


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


def _cells_of(goal: goals.AnyGoal, at: int, snapshot: Snapshot) -> Cells:
    """The places of a field: numbered counters such as memory slices, or else the devices."""
    return tuple(_cells(np.flatnonzero(goal.of == at), snapshot))


def _cells(rows: Rows, snapshot: Snapshot) -> Iterator[ObjectKey | None]:
    fleet, occupancy = snapshot.fleet, snapshot.occupancy
    held = rows[occupancy.held[rows] | occupancy.sharing[rows]]
    claim_of = {row: next(iter(occupancy.claims_of(fleet.id_of(row))), None) for row in held.tolist()}
    drawing = fleet.sets[rows]
    sets = distinct(drawing[drawing >= 0]).tolist()
    for number in sets:
        # The counters of the largest family of the set, in order; of equal ones the first by name.
        names, of_counter = families(fleet.set_columns[number].scale)
        family = max(range(len(names)), key=lambda at: (of_counter.count(at), -at), default=0)
        for counter in (counter for counter, of in enumerate(of_counter) if of == family):
            there = (row for row in held.tolist() if _draws(row, number, counter, fleet))
            yield next((claim_of[row] for row in there), None)
    if not sets:
        yield from (claim_of.get(row) for row in rows.tolist())


def _draws(row: int, number: int, counter: int, fleet: Fleet) -> bool:
    pairs = zip(fleet.sets[row].tolist(), fleet.draws[row].tolist(), strict=True)
    return any(one == number and fleet.table[draw, counter] > 0 for one, draw in pairs)


def problem(
    moves: Sequence[PodMove],
    target: goals.Target,
    after: int,
    world: World,
    *,
    layout: FleetLayout | None = None,
    steps: int = STEPS,
    may_move: goals.MayMove = goals.anyone,
) -> str:
    """Why these moves, in their order, do not lead to `after` of what is counted any more. Empty if they do.

    `layout` is that of the world's fleet, if the caller has it. The world changes for the time of the call
    only.
    """
    snapshot = world.store.snapshot()
    try:
        goal = goals.goal_of(target, layout or fleet_layout(snapshot.topology))
    except Rejected as exc:
        return str(exc)
    occupants = Occupants(world)
    movers = {mover.key: mover for mover in goals.movers_of(occupants, world.store, may_move)}
    with world.trial() as trial:
        places = moves_planner.Places(trial, steps)
        for move in moves:
            mover = movers.get(move.pod)
            if mover is None:
                return f"pod {move.pod} may not be moved any more"
            if set(mover.devices) != set(move.devices):
                return f"pod {move.pod} holds other devices"
            leave(trial, frozenset([mover.key]), occupants)
            rows = goals.rows_of(move.to_devices, snapshot.fleet)
            found = places.on(mover, move.to_node, rows)
            if found is None or set(found.rows.tolist()) != set(rows.tolist()):
                return f"what replaces pod {move.pod} does not fit on {move.to_node} any more"
            settle(found.places, [mover.pod], trial)
        holds = goals.Held.of(trial)
    counted = sum(goal.count(at, holds).least for at in range(goal.fields))
    return "" if counted >= after else f"only {counted} would be free, not {after}"
