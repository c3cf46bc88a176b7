"""Nodes in equal states are tried once: the same answers as if each were tried."""

from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from perf.fleets.hard import SMALL, Scale, questions
from reconciler.allocation.dra import allocate as allocating
from reconciler.allocation.dra.allocate import NodeStates, compared_attributes
from reconciler.allocation.dra.node_attempt import attempt
from reconciler.api.objects.plan import Granted
from tests.tools.allocation_strategies import contests, hard_worlds
from tests.tools.allocation_strategies import worlds as any_worlds
from tests.tools.allocation_world import World, decide
from tests.tools.builders import Object, claim, device, distinct, held, hold, node, request, resource_slice
from tests.tools.examples import examples
from tests.tools.hard_twin import world_of

TIGHT = Scale(gpus=(2,), requests=(4, 9), shapes=SMALL)


def repeated(world: World, copies: int, without: set[tuple[int, int]]) -> World:
    """Every node so many times, with slices and holds of its own; `without` are holds that copies lack."""

    def copied(value: Any, copy: int, key: str = "") -> Any:
        if isinstance(value, dict):
            if key == "pool":
                return {**value, "name": f"{value['name']}-{copy}"}
            return {name: copied(one, copy, name) for name, one in value.items()}
        if isinstance(value, list):
            return [copied(one, copy) for one in value]
        return f"{value}-{copy}" if key in ("nodeName", "pool") else value

    def named(one: Object, copy: int) -> Object:
        metadata = {**one["metadata"], "name": f"{one['metadata']['name']}-{copy}"}
        if "uid" in metadata:
            metadata["uid"] += f"-{copy}"
        return {**copied(one, copy), "metadata": metadata}

    every = range(copies)
    return World(
        slices=[named(one, copy) for copy in every for one in world.slices],
        claims=world.claims,
        held=[
            named(one, copy)
            for copy in every
            for at, one in enumerate(world.held)
            if (at, copy) not in without
        ],
        classes=world.classes,
        nodes=[named(one, copy) for copy in every for one in world.nodes],
        taint_rules=world.taint_rules,
        rules=world.rules,
    )


def answered(world: World, steps: int, most_apart: int) -> tuple[object, int]:
    """The answer, and how many nodes were tried."""
    with (
        patch.object(allocating, "MOST_APART", most_apart),
        patch.object(allocating, "attempt", wraps=attempt) as tried,
    ):
        outcome = decide(world, steps=steps)
    if isinstance(outcome, Granted):
        return (outcome.node, outcome.plans), tried.call_count
    return (outcome.reason, outcome.message, outcome.nodes_refused), tried.call_count


@examples(200)
@given(
    st.one_of(hard_worlds(TIGHT), hard_worlds(TIGHT), any_worlds(), contests()),
    st.integers(2, 4),
    st.sets(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=3),
    st.sampled_from((20, 10_000)),
)
def test_nodes_in_equal_states_change_no_answer(
    world: World, copies: int, without: set[tuple[int, int]], steps: int
):
    many = repeated(world, copies, without)
    (apart, every), (together, fewer) = answered(many, steps, 1 << 30), answered(many, steps, 1)
    event("nodes were left out" if fewer < every else "all nodes were tried")
    # As fewer nodes use up steps, more of them can be tried.
    assert together == apart or (steps == 20 and fewer < every)


def question(family: str) -> World:
    return world_of(next(questions(5, 1, TIGHT._replace(requests=(6, 9)), 0.0, [family])))


@pytest.mark.parametrize("family", ["distinct", "matched", "mixed", "claims"])
def test_equal_nodes_are_tried_once(family: str):
    many = repeated(question(family), 20, set())
    outcome, tried = answered(many, 10_000, allocating.MOST_APART)
    assert (outcome, tried) == (answered(many, 10_000, 1 << 30)[0], allocating.MOST_APART)


def states_of(slices: list[Object], holds: list[Object], *constraints: Object) -> list[int]:
    nodes = [node(name) for name in ("n0", "n1", "n2")]
    world = World(slices, [claim("c", request("r", 2), constraints=constraints)], holds, nodes=nodes)
    seen = world.snapshot()
    parsed = world.parsed(seen)
    options = [option for slot in parsed.slots for option in slot.options]
    size = len(seen.topology.order)
    found = NodeStates.by(options, compared_attributes(parsed), seen, np.arange(size))
    assert found is not None
    numbers = [found.of(place) for place in range(size)]
    order = list(dict.fromkeys([number for number in numbers if number >= 0]))
    return [order.index(number) if number >= 0 else -1 for number in numbers]


def node_slice(number: int, values: list[int]) -> Object:
    content = [device(f"d{at}", {"v": value}) for at, value in enumerate(values)]
    return resource_slice(f"s{number}", content, pool=f"p{number}", nodeName=f"n{number}")


def test_values_count_by_which_devices_share_them_if_they_came_in_order():
    slices = [node_slice(number, [10 * number, 10 * number, 10 * number + 1]) for number in range(3)]
    assert states_of(slices, [], distinct("d/v")) == [0, 0, 0]
    slices[1] = node_slice(1, [10, 11, 11])
    assert states_of(slices, [], distinct("d/v")) == [0, 1, 0]
    assert states_of(slices, []) == [0, 0, 0]  # no constraint compares them


def test_what_is_held_counts():
    slices = [node_slice(number, [0, 1, 2]) for number in range(3)]
    assert states_of(slices, [held("h", hold("d1", pool="p2"))]) == [0, 0, 1]


def test_nodes_of_pools_that_are_not_ready_are_not_compared():
    slices = [node_slice(number, [0, 1, 2]) for number in range(3)]
    slices[1]["spec"]["pool"]["resourceSliceCount"] = 2
    assert states_of(slices, []) == [0, -1, 0]
