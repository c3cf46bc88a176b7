"""Plain requests get what the attempt on a node finds for them."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.allocation.dra import availability
from reconciler.allocation.dra.allocate import allocate
from reconciler.allocation.dra.budget import Fatal
from reconciler.allocation.dra.claim_shapes import ClaimShape, NodeFilter, claim_shape
from reconciler.allocation.dra.node_attempt import NodeGrant, attempt
from reconciler.allocation.dra.request_options import ParsedClaims
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.plan import Granted, Unsatisfied
from reconciler.state.devices import occupancy_columns
from reconciler.state.devices.occupancy import LONGEST_TRAIL
from reconciler.state.devices.snapshot import NodeSubset, Snapshot
from reconciler.state.store import Store
from tests.tools.allocation_strategies import worlds
from tests.tools.allocation_world import STEPS, World
from tests.tools.builders import (
    Object,
    claim,
    counter_slice,
    device,
    distinct,
    first_of,
    labelled,
    match,
    node,
    node_selector,
    request,
    resource_slice,
    selectors,
    store,
    typed,
    wants,
)
from tests.tools.examples import examples

KIND = 'device.attributes["d"].kind == "{}"'
NODES = ("n1", "n2")
SHARED: Object = {"allowMultipleAllocations": True}


def shape_of(one: ResourceClaim, seen: Snapshot) -> ClaimShape | None:
    """The shape of a claim, with counts of a snapshot; None if no node can meet it."""
    try:
        shape = claim_shape([one], seen)
    except Fatal:
        return None
    shape.node_filter.follow(seen)
    return shape


def compare(one: ResourceClaim, seen: Snapshot) -> int:
    """Compare both answers on all nodes; return how many nodes answered without an attempt."""
    shape = shape_of(one, seen)
    if shape is None or (plain := shape.plain(seen)) is None:
        return 0
    parsed, answered = ParsedClaims((one,), shape.parsed.slots), 0
    least = shape.node_filter.least
    for place, name in enumerate(seen.topology.order):
        first = 0 if least is None or not shape.node_filter.open[place] else least.item(place)
        searched = attempt(parsed, name, seen, steps=STEPS, pruned=False)
        again = attempt(parsed, name, seen, steps=STEPS)
        try:
            found = plain.first_fit(one, seen.topology.view(name), first)
        except Fatal:  # the attempt reports it
            found = None
        if found is not None:
            answered += 1
            assert isinstance(again, NodeGrant)
            assert isinstance(searched, NodeGrant)
            assert (again.plans, again.rank) == ((found[0],), found[1])
            assert (searched.plans, searched.rank) == ((found[0],), found[1])
    return answered


def compare_first_fit(one: ResourceClaim, seen: Snapshot, nodes: NodeSubset | None, steps: int) -> None:
    """Compare the decision over some nodes with asking one after the other.

    Twice: the second time the spec is known.
    """
    shape = shape_of(one, seen)
    if shape is None:
        return
    parsed, names = ParsedClaims((one,), shape.parsed.slots), seen.topology.order if nodes is None else nodes
    for _ in range(2):
        outcome = allocate([one], seen, nodes=nodes, steps=steps)
        found = ((name, attempt(parsed, name, seen, steps=steps)) for name in names)
        fitting = [(name, on_node) for name, on_node in found if isinstance(on_node, NodeGrant)]
        if not fitting:
            assert isinstance(outcome, Unsatisfied)
            continue
        best = min(on_node.rank for _, on_node in fitting)
        name, on_node = next(pair for pair in fitting if pair[1].rank == best)
        assert isinstance(outcome, Granted)
        assert (outcome.node, outcome.plans) == (name, on_node.plans)


@given(worlds())
@examples(150)
def test_the_answers_are_those_of_the_search_in_any_world(world: World):
    seen = world.snapshot()
    for one in world.wanted():
        compare(one, seen)


@given(st.data(), st.sampled_from([0, 16]), st.sampled_from([2, LONGEST_TRAIL]))
@examples(80)
def test_the_answers_stay_those_of_the_search_while_devices_are_taken_and_released(
    data: st.DataObject, few: int, longest: int
):
    """The counts follow the changes, one by one or all at once. Nothing is derived anew between them, but
    where too many changes would have to be kept.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(occupancy_columns, "LONGEST_TRAIL", longest)
        patch.setattr(availability, "FEW", few)
        take_and_release(data)


def take_and_release(data: st.DataObject) -> None:
    """Compare the answers while claims come and go."""
    picture, pending = machines(data), list[ResourceClaim]()
    kinds = st.tuples(st.sampled_from(["gpu", "small", "nic", "far"]), st.integers(1, 3), st.booleans())
    specs = data.draw(st.lists(kinds, min_size=1, max_size=3))
    for turn in range(8):
        kind, count, tied = data.draw(st.sampled_from(specs))
        constraints = [match("d/numa", "r")] if tied else []
        made = claim(
            f"c{turn}", request("r", count, selectors=selectors(KIND.format(kind))), constraints=constraints
        )
        one = typed(made)
        assert isinstance(one, ResourceClaim)
        seen = picture.snapshot()
        mask = np.array([data.draw(st.booleans()) for _ in NODES])
        some = NodeSubset(seen.topology.order, mask)
        compare_first_fit(
            one, seen, data.draw(st.sampled_from([None, some])), data.draw(st.sampled_from([1, STEPS]))
        )
        compare(one, seen)
        shape = shape_of(one, seen)
        if shape is not None:
            ((counted,), (slot,)) = shape.node_filter.of_only_slot, shape.parsed.slots
            expected = availability._count(slot.options[0], seen)
            assert (counted.mask == expected.mask).all()
            assert counted.per_node.tolist() == expected.per_node.tolist()
            anew = NodeFilter(shape.parsed.slots, seen.topology)
            anew.follow(seen)
            assert shape.node_filter.open.tolist() == anew.open.tolist()
        name = data.draw(st.sampled_from(NODES))
        outcome = attempt(shape.parsed, name, seen, steps=STEPS) if shape is not None else None
        if isinstance(outcome, NodeGrant):
            picture.assume(outcome.plans[0])
        leaves = data.draw(st.booleans())
        if pending and leaves:
            release(picture, pending.pop(0))
        pending.append(one)


def release(picture: Store, one: ResourceClaim) -> None:
    plan = picture.assumed(one.metadata.uid)
    if plan is not None:
        picture.forget(plan)


def machines(data: st.DataObject) -> Store:
    """Nodes with pools of GPUs, of partitions and of NICs, between which there are pools of other nodes, and
    a pool of devices that one or both reach.
    """
    zones = st.lists(st.sampled_from([("a",), ("x",), ("a", "x")]), max_size=4)
    far = [
        device(f"far-{n}", {"kind": "far", "numa": 0}, nodeSelector=node_selector(labelled("zone", *of)))
        for n, of in enumerate(data.draw(zones))
    ]
    slices: list[Object] = [resource_slice("far", far, pool="far", perDeviceNodeSelection=True)]
    for name in NODES:
        gpus = [
            device(f"gpu-{n}", {"kind": "gpu", "numa": data.draw(st.integers(0, 1))})
            for n in range(data.draw(st.integers(0, 5)))
        ]
        parts = [
            device(f"part-{n}", {"kind": "small", "numa": 0}, draws={"card": {"units": units}})
            for n, units in enumerate(data.draw(st.lists(st.integers(1, 3), max_size=4)))
        ]
        where: Any = {"pool": f"b-{name}", "nodeName": name, "slices": 2}
        slices += [
            resource_slice(f"gpus-{name}", gpus, pool=f"a-{name}", nodeName=name),
            resource_slice(f"parts-{name}", parts, **where),
            counter_slice(f"cards-{name}", {"card": {"units": 4}}, **where),
            resource_slice(f"nics-{name}", [device("nic", {"kind": "nic"})], pool=f"c-{name}", nodeName=name),
        ]
    nodes = [node("n1", zone="a"), node("n2", zone="x")]
    return store(*nodes, *slices, *World([], []).classes)


GPUS = [device(f"gpu-{n}", {"kind": "gpu", "numa": n % 2}) for n in range(5)]


def on_both(*content: Object, **fields: Any) -> list[Object]:
    return [resource_slice(f"s-{name}", content, pool=name, nodeName=name, **fields) for name in NODES]


def world_of(slices: list[Object], *requests: Object, **fields: Any) -> World:
    nodes = [node("n1", zone="a"), node("n2", zone="x")]
    return World(slices, [claim("c", *requests, **fields)], nodes=nodes)


OF_EITHER = [
    resource_slice("s", [device("A", nodeName="n1"), device("B", nodeName="n2")], perDeviceNodeSelection=True)
]
ALIKE = [match("d/numa", "r")]
NETWORK = resource_slice(
    "s",
    [
        device("A", {"numa": 0}, nodeSelector=node_selector(labelled("zone", "a"))),
        device("B", {"numa": 0}, nodeSelector=node_selector(labelled("zone", "a", "b"))),
        device("C", {"numa": 0}, nodeSelector=node_selector(labelled("zone", "a"), labelled("zone", "c"))),
    ],
    perDeviceNodeSelection=True,
)


@pytest.mark.parametrize(
    ("world", "nodes"),
    [
        pytest.param(world_of(on_both(*GPUS), request("r", 1)), 2, id="one"),
        pytest.param(world_of(on_both(*GPUS), request("r", 3)), 2, id="three"),
        pytest.param(world_of(on_both(*GPUS), request("r", 3), constraints=ALIKE), 2, id="three alike"),
        pytest.param(world_of(on_both(*GPUS), request("r", 4), constraints=ALIKE), 0, id="too few alike"),
        pytest.param(world_of(on_both(*GPUS[:1]), request("r", 2)), 0, id="too few"),
        pytest.param(world_of(OF_EITHER, request("r")), 2, id="a slice with devices of both nodes"),
        pytest.param(world_of(on_both(*GPUS), request("r"), request("s")), 0, id="two requests"),
        pytest.param(
            world_of(on_both(*GPUS), request("r", 2), constraints=[distinct("d/numa", "r")]), 0, id="distinct"
        ),
        pytest.param(world_of(on_both(*GPUS), first_of("r", a=wants(), b=wants())), 2, id="alternatives"),
        pytest.param(
            world_of(
                on_both(*GPUS),
                first_of("r", a=wants(count=4), b=wants(count=3), c=wants()),
                constraints=ALIKE,
            ),
            2,
            id="the second of three alternatives",
        ),
        pytest.param(
            world_of(on_both(*GPUS), first_of("r", a=wants(9), b=wants(None))), 0, id="an alternative for all"
        ),
        pytest.param(world_of(on_both(device("A", **SHARED)), request("r")), 0, id="shared"),
        pytest.param(
            world_of(on_both(device("A", **SHARED), device("B", **SHARED)), request("r", 2)),
            0,
            id="entangled",
        ),
        pytest.param(
            world_of([resource_slice("s", GPUS, allNodes=True)], request("r")), 2, id="devices of all nodes"
        ),
        pytest.param(world_of([NETWORK], request("r")), 1, id="a device that selects its nodes"),
        pytest.param(world_of([NETWORK], request("r", 2)), 1, id="two devices that select their nodes"),
        pytest.param(world_of([NETWORK], request("r", 3)), 0, id="a device that selects by two terms"),
        pytest.param(
            world_of(on_both(*GPUS), request("r", selectors=selectors('device.attributes["d"].x == 1'))),
            0,
            id="an error",
        ),
    ],
)
def test_which_requests_are_plain(world: World, nodes: int):
    assert compare(world.wanted()[0], world.snapshot()) == nodes
