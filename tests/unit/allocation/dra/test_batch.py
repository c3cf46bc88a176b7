"""Copies of a claim that are placed in one pass get what they would get one after the other."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.allocation.dra.allocate import allocate
from reconciler.allocation.dra.batch import allocate_batch
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.plan import Granted, Plan
from reconciler.state.pods.placed import pinned_to
from tests.tools.allocation_strategies import worlds
from tests.tools.allocation_world import STEPS, World, asks, numbered
from tests.tools.builders import (
    Object,
    counter_slice,
    device,
    device_class,
    distinct,
    first_of,
    held,
    hold,
    match,
    node,
    request,
    resource_slice,
    selectors,
    store,
    taint,
    typed,
    wants,
)
from tests.tools.examples import examples

COPIES = 7
NODES = ("n1", "n2", "n3")
KIND = 'device.attributes["d"].kind == "{}"'


def copies(of: Object, count: int = COPIES) -> list[ResourceClaim]:
    """Claims that differ from one only in name and uid."""
    found = []
    for number in range(count):
        one = typed({**of, "metadata": {**of["metadata"], "name": f"c{number}", "uid": f"uid-c{number}"}})
        assert isinstance(one, ResourceClaim)
        found.append(one)
    return found


def one_by_one(world: World, claims: list[ResourceClaim], nodes: list[str] | None) -> list[Plan]:
    """The plans of the claims up to the first refusal."""
    picture = store(*objects(world), rules=world.rules)
    found: list[Plan] = []
    for one in claims:
        outcome = numbered(allocate, [one], picture.snapshot(), nodes=nodes, steps=STEPS)
        if not isinstance(outcome, Granted):
            break
        found += outcome.plans
        picture.assume(outcome.plans[0])
    return found


def together(world: World, claims: list[ResourceClaim], nodes: list[str] | None) -> list[Plan]:
    """The plans of the pass."""
    seen = store(*objects(world), rules=world.rules).snapshot()
    granted = allocate_batch(claims, seen, nodes=nodes, steps=STEPS)
    assert all(one.node == plan.node and one.steps for one in granted for plan in one.plans)
    plans = [plan for one in granted for plan in one.plans]
    assert all(plan.node == pinned_to(plan.allocation.node_selector) for plan in plans)
    return plans


def objects(world: World) -> list[Object]:
    return [*world.nodes, *world.classes, *world.slices, *world.taint_rules, *world.held]


# -- every answer is that of one by one


@given(worlds(), st.sampled_from((None, ["m"])))
@examples(100)
def test_copies_get_what_they_get_one_by_one_in_any_world(world: World, nodes: list[str] | None):
    for one in world.claims:
        claims = copies(one)
        found = together(world, claims, nodes)
        assert found == one_by_one(world, claims, nodes)[: len(found)]


@st.composite
def machines(draw: st.DrawFn) -> World:
    """Nodes of GPUs, partitions and NICs, where most copies can be placed in one pass."""
    slices: list[Object] = []
    taken: list[Object] = []
    for name in NODES[: draw(st.integers(1, 3))]:
        makers = draw(
            st.lists(st.sampled_from((_gpus, _partitions, _nics)), min_size=1, max_size=3, unique=True)
        )
        for make in makers:
            slices += make(draw, name)
    for spec in [made["spec"] for made in slices]:
        for one in spec.get("devices", ()):
            if draw(st.integers(0, 5)) == 0:
                where: Any = {"driver": spec["driver"], "pool": spec["pool"]["name"]}
                taken.append(held(f"h{len(taken)}", hold(one["name"], **where)))
    kinds = ("gpu", "small", "large", "nic")
    kind, count = draw(st.sampled_from(kinds)), draw(st.integers(1, 3))
    requests = [request("r", count, selectors=selectors(KIND.format(kind)))]
    constraints = [match("d/numa", "r")] if draw(st.booleans()) else []
    if draw(st.integers(0, 2)) == 0:
        other = draw(st.sampled_from(kinds))
        requests.append(request("s", draw(st.integers(1, 2)), selectors=selectors(KIND.format(other))))
    return World(slices, asks(*requests, constraints=constraints), taken, nodes=[*map(node, NODES)])


def _gpus(draw: st.DrawFn, on: str) -> list[Object]:
    content = [
        device(f"gpu-{n}", {"kind": "gpu", "numa": draw(st.integers(0, 1))}, **_taints(draw))
        for n in range(draw(st.integers(1, 6)))
    ]
    return [resource_slice(f"gpus-{on}", content, pool=f"gpus-{on}", nodeName=on)]


def _nics(draw: st.DrawFn, on: str) -> list[Object]:
    content = [device(f"nic-{n}", {"kind": "nic"}) for n in range(draw(st.integers(1, 4)))]
    return [resource_slice(f"nics-{on}", content, driver="d", pool=f"a-nics-{on}", nodeName=on)]


def _partitions(draw: st.DrawFn, on: str) -> list[Object]:
    """Large and small partitions, in any order, of one or two cards."""
    cards = [f"card-{n}" for n in range(draw(st.integers(1, 2)))]
    content = []
    for card in cards:
        drawn = [("large", 3), *[("small", 1)] * draw(st.integers(1, 4)), ("small", 2)]
        for number, (kind, units) in enumerate(draw(st.permutations(drawn))):
            content.append(device(f"{card}-{number}", {"kind": kind}, draws={card: {"units": units}}))
    where: Any = {"pool": f"parts-{on}", "nodeName": on, "slices": 2}
    sets = {card: {"units": draw(st.integers(2, 5))} for card in cards}
    return [resource_slice(f"parts-{on}", content, **where), counter_slice(f"counters-{on}", sets, **where)]


def _taints(draw: st.DrawFn) -> Object:
    return {"taints": [taint("k")]} if draw(st.integers(0, 7)) == 0 else {}


@given(machines())
@examples(100)
def test_copies_get_what_they_get_one_by_one_on_common_machines(world: World):
    claims = copies(world.claims[0])
    found = together(world, claims, None)
    assert found == one_by_one(world, claims, None)[: len(found)]


# -- the pass is used


def spread(*content: Object, on: tuple[str, ...] = NODES, **fields: Any) -> list[Object]:
    """The same devices on several nodes."""
    return [resource_slice(f"s-{name}", content, pool=name, nodeName=name, **fields) for name in on]


def world_of(slices: list[Object], *requests: Object, **fields: Any) -> World:
    return World(slices, asks(*requests, **fields), nodes=[*map(node, NODES)], classes=[device_class()])


GPUS = [device(f"gpu-{n}", {"kind": "gpu", "numa": n % 2}) for n in range(5)]
CARD = [device(f"part-{n}", {"kind": "small"}, draws={"card": {"units": 1}}) for n in range(5)]
PARTITIONED = [
    made
    for name in NODES
    for made in (
        resource_slice(f"s-{name}", CARD, pool=name, nodeName=name, slices=2),
        counter_slice(f"c-{name}", {"card": {"units": 2}}, pool=name, nodeName=name, slices=2),
    )
]
LARGE = [device("part-9", {"kind": "large"}, draws={"card": {"units": 2}})]
TWO_KINDS = [resource_slice("s-n1", [*CARD, *LARGE], pool="n1", nodeName="n1", slices=2), PARTITIONED[1]]
NIC = [resource_slice(f"nic-{n}", [device("nic", {"kind": "nic"})], pool=f"x-{n}", nodeName=n) for n in NODES]


@pytest.mark.parametrize(
    ("world", "placed"),
    [
        (world_of(spread(*GPUS), request("r", 2)), 6),
        (world_of(spread(*GPUS), request("r", 2), constraints=[match("d/numa", "r")]), 6),
        (world_of(spread(*GPUS), request("r", 3), constraints=[match("d/numa", "r")]), 3),
        (world_of(PARTITIONED, request("r", 1)), 6),
        (
            world_of(
                [*spread(*GPUS), *NIC],
                request("r", 2, selectors=selectors(KIND.format("gpu"))),
                request("s", 1, selectors=selectors(KIND.format("nic"))),
            ),
            3,
        ),
    ],
)
def test_all_copies_that_fit_are_placed_in_one_pass(world: World, placed: int):
    claims = copies(world.claims[0])
    one_by_one(world, claims, None)  # a pass waits for selectors that never ran
    found = together(world, claims, None)
    assert len(found) == placed
    assert found == one_by_one(world, claims, None)


# -- what is decided one by one


@pytest.mark.parametrize(
    "world",
    [
        world_of(spread(*GPUS), request("r", None)),
        world_of(spread(*GPUS), request("r", 2), constraints=[distinct("d/numa", "r")]),
        world_of(spread(*GPUS), first_of("r", one=wants(2), other=wants(1))),
        world_of(spread(*GPUS), request("r"), request("s")),
        world_of(spread(*GPUS), request("r", adminAccess=True)),
        world_of(spread(*GPUS), request("r", device_class="missing")),
        world_of(PARTITIONED, request("r", 2)),
        world_of(
            TWO_KINDS,
            request("r", selectors=selectors(KIND.format("small"))),
            request("s", selectors=selectors(KIND.format("large"))),
        ),
        world_of([resource_slice("all", GPUS, allNodes=True)], request("r")),
        world_of(spread(device("nic", allowMultipleAllocations=True)), request("r")),
    ],
)
def test_devices_that_influence_each_other_are_left_to_single_decisions(world: World):
    claims = copies(world.claims[0])
    assert together(world, claims, None) == []


def test_a_device_that_two_generations_offer_is_given_once():
    """Each node sees a complete generation, with a device of the same name."""
    old = resource_slice("s-n1", [device("gpu")], pool="p", generation=1, nodeName="n1")
    new = resource_slice("s-n2", [device("gpu")], pool="p", generation=2, nodeName="n2")
    world = world_of([old, new], request("r"))
    claims = copies(world.claims[0])
    assert together(world, claims, None) == []
    assert len(one_by_one(world, claims, None)) == 1
