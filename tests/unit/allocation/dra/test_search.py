"""Compares the search with a slow one that tries everything, and checks its answers by the rules."""

from dataclasses import replace

import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st

from reconciler.allocation.dra.node_attempt import NodeGrant
from tests.tools.allocation_checker import problems
from tests.tools.allocation_strategies import contests, worlds
from tests.tools.allocation_world import World, answer, on_node
from tests.tools.examples import examples
from tests.tools.exhaustive_search import TooLarge, exhaustive


def _expected(world: World, name: str):
    try:
        found = exhaustive(world, name, limit=4_000)
    except TooLarge:
        assume(False)
    event("granted" if isinstance(found, list) else str(found))
    return found


def _names(world: World) -> list[str]:
    return [node["metadata"]["name"] for node in world.nodes]


@examples(50)
@given(worlds())
def test_the_answer_is_that_of_trying_everything_in_order(world: World):
    """Same devices, same error, same "does not fit": no answer is pruned, and errors are answers."""
    for name in _names(world):
        assert answer(on_node(world, name)) == _expected(world, name)


@examples(50)
@given(contests())
def test_where_requests_compete_the_answer_is_that_of_trying_everything(world: World):
    assert answer(on_node(world)) == _expected(world, "n")


@examples(50)
@given(contests())
def test_bounds_and_equality_of_devices_change_no_answer(world: World):
    """Worlds too large to try everything."""
    quick, slow = on_node(world), on_node(world, pruned=False)
    assert answer(quick) == answer(slow)
    assert quick.steps <= slow.steps or not isinstance(quick, NodeGrant)


@examples(50)
@given(st.one_of(worlds(), contests()))
def test_every_answer_keeps_every_rule(world: World):
    for name in _names(world):
        outcome = on_node(world, name)
        if isinstance(outcome, NodeGrant):
            assert problems(world, outcome.plans) == []


@examples(30)
@given(worlds(), st.randoms(use_true_random=False))
def test_the_order_in_which_objects_arrive_does_not_matter(world: World, random):
    mixed = [random.sample(list(group), len(group)) for group in (world.slices, world.held, world.classes)]
    other = replace(world, slices=mixed[0], held=mixed[1], classes=mixed[2])
    for name in _names(world):
        assert answer(on_node(other, name)) == answer(on_node(world, name))


@pytest.mark.parametrize("budget", [0, 1, 5])
@examples(15)
@given(contests())
def test_a_search_that_gives_up_says_so_and_never_says_no(budget: int, world: World):
    whole = on_node(world)
    cut = on_node(world, steps=budget)
    if whole.steps <= budget:
        assert answer(cut) == answer(whole)
    else:
        assert not isinstance(cut, NodeGrant)
        assert (cut.reason, cut.message) == ("SearchGaveUp", f"gave up after {budget} steps")
