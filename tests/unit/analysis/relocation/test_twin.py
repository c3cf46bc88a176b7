"""Plans of moves against all moves on small fleets, and step by step."""

from hypothesis import given
from hypothesis import strategies as st

from reconciler.analysis.capacity.layout import fleet_layout
from reconciler.analysis.relocation.goals import Target, goal_of
from reconciler.analysis.relocation.movers import movers_of
from reconciler.analysis.relocation.moves_planner import Plan, Planner
from reconciler.analysis.world import World, world_of
from reconciler.api.objects.semantics import Semantics
from reconciler.api.versions.reading import read
from tests.tools.examples import examples
from tests.tools.machines import claim_of, device_class, halves, objects_of, pod_of, wholes
from tests.tools.moves_twin import NODES, Scene, Spot, best_moves, free_count, is_valid, spots

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
    layout = fleet_layout(snapshot.fleet, snapshot.rules)
    goal = goal_of(Target(profile, gain=gain), layout)
    with world.trial() as trial:
        return Planner(goal, movers_of(world), world, trial, 10_000).run(gain)


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
        (moved,) = move.place.granted.plans
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
