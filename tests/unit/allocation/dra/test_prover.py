"""Proofs against searches that try everything, on questions that are hard for their size (SRCH-13)."""

from random import Random

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from msgspec.structs import replace

from perf.fleets.hard import FAMILIES, SMALL, Question, Scale, question, questions
from reconciler.allocation.dra.bounds import Remaining
from reconciler.allocation.dra.candidates import find_candidates
from reconciler.allocation.dra.descent import StateKey
from reconciler.allocation.dra.node_attempt import NodeGrant, attempt
from reconciler.allocation.dra.prover import Prover
from reconciler.allocation.dra.state import begin, set_up
from reconciler.api.objects.plan import Granted
from tests.tools.allocation_world import World, answer, decide, on_node
from tests.tools.builders import claim, device, device_class, node, request, resource_slice
from tests.tools.examples import examples

TINY = Scale(gpus=(2, 3), requests=(1, 4), shapes=SMALL)


def world_of(asked: Question) -> World:
    kinds = {kind: [one for one in asked.fleet if one["kind"] == kind] for kind in ("Node", "DeviceClass")}
    slices = [one for one in asked.fleet if one["kind"] == "ResourceSlice"]
    return World(slices, asked.claims, asked.held, kinds["DeviceClass"], kinds["Node"])


@st.composite
def worlds(draw: st.DrawFn) -> World:
    rnd = Random(draw(st.integers(0, 2**32)))
    family = draw(st.sampled_from(FAMILIES))
    event(family)
    return world_of(question(rnd, family, TINY, draw(st.sampled_from((0.0, 0.5)))))


@examples(150)
@given(worlds())
def test_proofs_change_no_answer(world: World):
    plain = on_node(world, "n0", pruned=False, steps=20_000)
    if getattr(plain, "reason", None) != "SearchGaveUp":
        event("granted" if isinstance(plain, NodeGrant) else "refused")
        assert answer(on_node(world, "n0")) == answer(plain)


@examples(150)
@given(worlds())
def test_what_is_not_proved_impossible_can_be_met(world: World):
    """Everything counts in these questions: neither exclusion nor shares."""
    seen = world.snapshot()
    parsed, view = world.parsed(seen), seen.topology.view("n0")
    by_slot = [[find_candidates(option, view, seen) for option in slot.options] for slot in parsed.slots]
    problem = set_up(parsed, view, seen)
    state = begin(problem, problem.constraints[0])
    left = Remaining(problem, parsed.slots, by_slot, state)
    proved = Prover(problem).is_impossible(left.slots, left.by_slot, state)
    assert (proved is True) == (not isinstance(on_node(world, "n0"), NodeGrant))


@pytest.mark.parametrize("columns", [0, 1])
def test_devices_that_draw_nothing_are_counted(columns: int):
    """The columns of sets may outlast the last device that draws from one."""
    slices = [resource_slice("s", [device("A"), device("B")], nodeName="n0")]
    wanted = [request(f"r{at}") for at in range(3)]
    world = World(slices, [claim("c", *wanted)], [], [device_class()], [node("n0")])
    seen = world.snapshot()
    parsed, view = world.parsed(seen), seen.topology.view("n0")
    by_slot = [[find_candidates(option, view, seen) for option in slot.options] for slot in parsed.slots]
    none = np.full((2, columns), -1, dtype=np.int32)
    problem = replace(set_up(parsed, view, seen), sets=none, draws=none)
    state = begin(problem, problem.constraints[0])
    left = Remaining(problem, parsed.slots, by_slot, state)
    assert Prover(problem).is_impossible(left.slots, left.by_slot, state)


RECORDED = (
    "1011100111111011100101010000111110011101000010000111011000101001010110111000001111000111100111100001"
    "0010000001000001100000110100000000010100000000010001000001110000000001001010000100010010000001010000"
)
"""Whether devices exist, as CP-SAT says: a hundred questions on empty nodes, a hundred with held GPUs"""


@pytest.mark.parametrize("part", range(4))
def test_answers_are_those_of_a_solver(part: int):
    scale = Scale(gpus=(4, 8))
    asked = [*questions(2026, 100, scale, 0.0), *questions(2027, 100, scale, 0.5)][part::4]
    found = "".join(str(int(isinstance(decide(world_of(one), steps=10_000), Granted))) for one in asked)
    assert found == RECORDED[part::4]


def test_nodes_in_equal_states_are_searched_once():
    scale = Scale(gpus=(2,), nodes=(5,), requests=(6, 9), shapes=SMALL)
    world = world_of(next(questions(5, 1, scale, 0.0, ["distinct"])))
    seen, failed = world.snapshot(), set[StateKey]()
    parsed = world.parsed(seen)
    outcomes = [attempt(parsed, name, seen, steps=10_000, failed=failed) for name in seen.topology.order]
    assert not any(isinstance(outcome, NodeGrant) for outcome in outcomes)
    assert len(failed) == 1
