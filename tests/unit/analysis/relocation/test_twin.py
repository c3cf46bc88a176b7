"""Plans of moves against all moves on small fleets, step by step, and whether the rest of one still holds."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.analysis.capacity.layout import fleet_layout
from reconciler.analysis.relocation.defragment import PodMove, defragment, problem
from reconciler.analysis.relocation.goals import Target, goal_of, movers_of
from reconciler.analysis.relocation.moves_planner import Plan, Planner
from reconciler.analysis.relocation.occupants import Occupants
from reconciler.analysis.world import World, world_of
from reconciler.api.objects.semantics import Semantics
from reconciler.api.versions.reading import read
from tests.tools.builders import Object
from tests.tools.examples import examples
from tests.tools.machines import Machine, claim_of, device_class, halves, objects_of, pod_of, wholes

NODES = "node"
Spot = tuple[int, tuple[str, ...]]
"""Machine and devices of one pod"""
State = tuple[Spot, ...]
"""The spot of each pod"""


class Scene(NamedTuple):
    """Machines, and pods on them; each needs devices of one profile on one machine."""

    machines: tuple[Machine, ...]
    profiles: tuple[str, ...]
    start: State


def spots(machines: Sequence[Machine], profile: str, count: int) -> Iterator[Spot]:
    """Where a pod could be on empty machines."""
    for at, machine in enumerate(machines):
        for chosen in combinations([part.name for part in machine.parts if part.profile == profile], count):
            if machine.room_for(chosen):
                yield at, chosen


def on(state: Sequence[Spot], machine: int) -> list[str]:
    """The devices that pods hold on a machine."""
    return [name for at, names in state if at == machine for name in names]


def is_valid(machines: Sequence[Machine], state: Sequence[Spot]) -> bool:
    """Whether all pods can be where they are."""
    return all(machine.room_for(on(state, at)) for at, machine in enumerate(machines))


def free_count(machines: Sequence[Machine], state: Sequence[Spot], profile: str) -> int:
    """How many more devices of a profile fit together; of `NODES`, how many machines hold nothing."""
    if profile == NODES:
        return sum(not on(state, at) for at in range(len(machines)))
    found = 0
    for at, machine in enumerate(machines):
        held = on(state, at)
        names = [part.name for part in machine.parts if part.profile == profile and part.name not in held]
        for size in range(len(names), 0, -1):
            if any(machine.room_for((*held, *more)) for more in combinations(names, size)):
                found += size
                break
    return found


def reachable(scene: Scene, most: int) -> Mapping[State, int]:
    """State -> the fewest moves to it, for states within a number of moves."""
    found = {scene.start: 0}
    edge = [scene.start]
    pods = range(len(scene.profiles))
    spots_of = [list(spots(scene.machines, scene.profiles[pod], len(scene.start[pod][1]))) for pod in pods]
    for depth in range(1, most + 1):
        after = []
        for state, pod in product(edge, pods):
            for spot in spots_of[pod]:
                moved = (*state[:pod], spot, *state[pod + 1 :])
                if moved not in found and scene.machines[spot[0]].room_for(on(moved, spot[0])):
                    found[moved] = depth
                    after.append(moved)
        edge = after
    return found


def best_moves(scene: Scene, profile: str, most: int) -> dict[int, int]:
    """Gain -> the fewest moves after which so many more devices fit, or even more."""
    before = free_count(scene.machines, scene.start, profile)
    found: dict[int, int] = {}
    for state, depth in reachable(scene, most).items():
        gain = free_count(scene.machines, state, profile) - before
        for reached in range(1, gain + 1):
            found[reached] = min(depth, found.get(reached, depth))
    return found


MOST_MOVES = 3
"""Of the exhaustive search; no scene has more pods"""
FLEETS = [[halves()] * 2, [halves()] * 3, [halves(), wholes(2), wholes(1)], [wholes(2)] * 3]
PODS = [("half", 1), ("quarter", 1), ("quarter", 2), ("whole", 1), ("gpu", 1), ("gpu", 2)]


def world_from(scene: Scene) -> World:
    objects = [device_class()]
    for at, machine in enumerate(scene.machines):
        objects += objects_of(f"n{at}", machine)
    for pod, (profile, (at, devices)) in enumerate(zip(scene.profiles, scene.start, strict=True)):
        objects += [claim_of(f"p{pod}", profile, f"n{at}", *devices), pod_of(f"p{pod}", f"n{at}")]
    return world_of(map(read, objects), Semantics())


def plan(scene: Scene, profile: str, gain: int) -> Plan:
    world = world_from(scene)
    snapshot = world.store.snapshot()
    layout = fleet_layout(snapshot.topology)
    goal = goal_of(Target(profile, gain=gain), layout)
    with world.trial() as trial:
        occupants = Occupants(world)
        return Planner(goal, movers_of(occupants, world.store), occupants, trial, 10_000).run(gain)


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    """Pods that came where they fit, of which some have left again."""
    machines = tuple(
        draw(st.sampled_from([[halves()] * 2, [halves()] * 3, [halves(), wholes(2), wholes(1)]]))
    )
    profiles, start = list[str](), list[Spot]()
    for profile in draw(
        st.lists(st.sampled_from(["half", "quarter", "quarter", "whole", "gpu"]), max_size=4)
    ):
        fitting = [one for one in spots(machines, profile, 1) if is_valid(machines, [*start, one])]
        if fitting and len(start) < MOST_MOVES:
            profiles.append(profile)
            start.append(draw(st.sampled_from(fitting)))
    return Scene(machines, tuple(profiles), tuple(start))


@given(scenes(), st.sampled_from(["whole", "half", NODES]), st.integers(1, 2))
@examples(30)
def test_plans_are_valid_and_their_bounds_hold(scene: Scene, profile: str, wanted: int):
    found = plan(scene, profile, wanted)
    state, before = list(scene.start), free_count(scene.machines, scene.start, profile)
    for move in found.moves:
        ((moved,),) = (place.plans for place in move.places)
        pod = int(moved.claim.name.removeprefix("p"))
        devices = tuple(result.device for result in moved.allocation.devices.results)
        state[pod] = (int(moved.node.removeprefix("n")), devices)
        assert is_valid(scene.machines, state), "every step fits"
    assert free_count(scene.machines, state, profile) - before == found.gain
    best = best_moves(scene, profile, MOST_MOVES)
    assert found.most >= max(best, default=0)
    if found.gain:
        reached = min(found.gain, wanted)
        assert found.fewest is not None
        assert found.fewest <= best[reached] <= len(found.moves)


GOAL = Target("whole", gain=1)


def world(*placed: tuple[str, str, str]) -> World:
    """Four nodes with a GPU in quarters each, and pods as (name, node, device)."""
    fleet = [raw for at in range(4) for raw in objects_of(f"n{at}", halves())]
    pods: list[Object] = []
    for name, on, device in placed:
        pods += [claim_of(name, "quarter", on, device), pod_of(name, on)]
    return world_of(map(read, [device_class(), *fleet, *pods]), Semantics())


FULL = (
    ("p", "n0", "quarter-0"),
    ("q", "n1", "quarter-0"),
    ("r", "n2", "quarter-0"),
    ("s", "n3", "quarter-0"),
)


def planned(found: World) -> tuple[tuple[PodMove, ...], int]:
    answer = defragment(Target("whole", gain=2), found)
    assert answer.moves
    return answer.moves, answer.before + answer.gain


def carried_out(moves: tuple[PodMove, ...], before: tuple[tuple[str, str, str], ...]) -> Any:
    """Where the pods are after some moves."""
    there = {name: (name, on, device) for name, on, device in before}
    for move in moves:
        there[move.pod.name] = (move.pod.name, move.to_node, move.to_devices[0].device)
    return tuple(there.values())


def test_the_rest_of_a_plan_leads_to_what_it_promised():
    """After each of its moves, and from the start."""
    moves, after = planned(world(*FULL))
    for done in range(len(moves) + 1):
        now = world(*carried_out(moves[:done], FULL))
        assert problem(moves[done:], GOAL, after, now) == ""


@given(st.sets(st.sampled_from(FULL), min_size=2), st.integers(1, 3))
@examples(20)
def test_every_plan_passes_until_its_end(placed: set[tuple[str, str, str]], wanted: int):
    start = tuple(sorted(placed))
    answer = defragment(Target("whole", gain=wanted), world(*start))
    for done in range(len(answer.moves) + 1):
        now = world(*carried_out(answer.moves[:done], start))
        assert problem(answer.moves[done:], GOAL, answer.before + answer.gain, now) == ""


def test_what_changed_is_named():
    moves, after = planned(world(*FULL))
    first = moves[0]
    others = [one for one in FULL if one[0] != first.pod.name]
    assert problem(moves, GOAL, after, world(*others)) == f"pod {first.pod} may not be moved any more"
    taken = ("x", first.to_node, first.to_devices[0].device)
    found = problem(moves, GOAL, after, world(*FULL, taken))
    assert found == f"what replaces pod {first.pod} does not fit on {first.to_node} any more"
    elsewhere = replace(first, to_node="n9")
    found = problem([elsewhere], GOAL, after, world(*FULL))
    assert found == f"what replaces pod {first.pod} does not fit on n9 any more"
    moved = world(*others, (first.pod.name, first.node, "quarter-3"))
    assert problem(moves, GOAL, after, moved) == f"pod {first.pod} holds other devices"
    assert problem(moves, GOAL, after + 1, world(*FULL)) == f"only {after} would be free, not {after + 1}"
    assert problem(moves, Target("none", gain=1), after, world(*FULL)).startswith("there is no profile")


@pytest.mark.parametrize("done", [0, 1])
def test_nothing_is_changed_by_the_question(done: int):
    moves, after = planned(world(*FULL))
    now = world(*carried_out(moves[:done], FULL))
    before = now.store.snapshot().occupancy.held.copy()
    problem(moves[done:], GOAL, after, now)
    assert (now.store.snapshot().occupancy.held == before).all()
    assert len(movers_of(Occupants(now), now.store)) == len(FULL)
