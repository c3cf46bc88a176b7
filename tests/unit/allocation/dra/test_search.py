"""Compares the search with a slow one that tries everything, and checks its answers by the rules."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st

from reconciler.allocation.dra.node_attempt import NodeGrant
from reconciler.api.objects.plan import Reason
from tests.tools.allocation_checker import problems
from tests.tools.allocation_strategies import contests, worlds
from tests.tools.allocation_world import Case, World, answer, asks, local, on_node
from tests.tools.builders import (
    Object,
    counter_slice,
    device,
    devices,
    distinct,
    held,
    hold,
    match,
    only,
    request,
    selectors,
)
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


# -- The search skips devices equal to one that failed; these devices differ.


def drawing(name: str, amount: int, **fields: Any) -> Object:
    return device(name, {"id": name}, draws={"g": {"m": amount}}, **fields)


def pool(total: int, *content: Object) -> list[Object]:
    return [local(*content, slices=2), counter_slice("t", {"g": {"m": total}}, slices=2, nodeName="n")]


def with_m(**values: Any) -> list[Object]:
    return [
        device(name, {"id": name, "m": value} if value else {"id": name}) for name, value in values.items()
    ]


SHARED = devices("A", "B", capacity={"mem": "4"}, allowMultipleAllocations=True)

EQUALS = {
    "another value of a constraint": Case(
        ["r1=B r2=C"],
        local(*with_m(A=1, B=2, C=2)),
        asks(request("r1"), request("r2"), constraints=[match("d/m")]),
    ),
    "another draw": Case(
        ["r1=B r2=C"],
        pool(4, drawing("A", 2), drawing("B", 1), drawing("C", 3)),
        asks(request("r1"), request("r2", selectors=only("C"))),
    ),
    "more consumed by shares": Case(
        ["r1=B r2=A"],
        local(*SHARED),
        asks(request("r1", capacity={"mem": "1"}), request("r2", capacity={"mem": "4"})),
        {"held": [held("h", hold("B", shareID="x", consumedCapacity={"mem": "2"}))]},
    ),
    "what was consumed on the way": Case(
        ["r1=A r2=B r3=A r4=B"],
        local(*SHARED),
        asks(*(request(f"r{n}", capacity={"mem": m}) for n, m in enumerate("1133", 1))),
    ),
    "an error for a later request": Case(
        Reason.CEL_RUNTIME,
        local(*devices("A", "B")),
        asks(
            request("r1"),
            request(
                "r2",
                selectors=selectors(
                    'device.attributes["d"].id == "A" && device.attributes["d"].missing == 1'
                ),
            ),
        ),
    ),
    "wanted by a later request": Case(
        ["r1=B r2=A"], local(*devices("A", "B")), asks(request("r1"), request("r2", selectors=only("A")))
    ),
    "another place in the list of mode All": Case(
        Reason.CONSTRAINT_VIOLATED,
        local(*with_m(A=1, B=0, C=0, D=1)),
        asks(request("r1"), request("r2", None), constraints=[distinct("d/m")]),
    ),
}


@pytest.mark.parametrize("pruned", [True, False], ids=["pruned", "plain"])
@pytest.mark.parametrize("case", EQUALS.values(), ids=EQUALS)
def test_a_device_is_tried_although_one_failed_that_differs_by(case: Case, pruned: bool):
    """The search skips devices equal to one that failed. These devices are not equal."""
    assert case.answer(pruned=pruned) == case.expected
