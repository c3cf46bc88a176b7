"""Whether the rest of a plan is still worth carrying out."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.analysis.relocation.defragment import PodMove, defragment, problem
from reconciler.analysis.relocation.goals import Target
from reconciler.analysis.relocation.movers import movers_of
from reconciler.analysis.world import World, world_of
from reconciler.api.objects.semantics import Semantics
from reconciler.api.versions.reading import read
from tests.tools.builders import Object
from tests.tools.examples import examples
from tests.tools.machines import claim_of, device_class, halves, objects_of, pod_of

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
    assert len(movers_of(now)) == len(FULL)
