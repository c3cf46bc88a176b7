"""The policies that judge devices against twins that go device by device."""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from reconciler.allocation.dra.allocate import allocate
from reconciler.allocation.dra.claim_shapes import claim_shape
from reconciler.allocation.policies.compiled_demand import FULLNESS
from reconciler.allocation.policies.demand import Demand, Shape
from reconciler.allocation.policies.least_loss import PRICE, LeastLoss, pressure
from reconciler.allocation.policies.policy import BEST_FIT, SPREAD, Policy, PolicyQuestion
from reconciler.allocation.policies.selection import policy_named
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.plan import Granted
from reconciler.state.devices.snapshot import Snapshot
from tests.tools import naive_policies as naive
from tests.tools.builders import (
    claim,
    device,
    device_class,
    held,
    hold,
    node,
    request,
    resource_slice,
    snapshot,
    store,
    typed,
)
from tests.tools.examples import examples
from tests.tools.naive_policies import PARTS, SIZES, Parts


@st.composite
def _gpu(draw: st.DrawFn) -> frozenset[str]:
    found: set[str] = set()
    for part in draw(st.permutations(sorted(PARTS))):
        first, count = PARTS[part]
        slots = {slot for one in found for slot in range(PARTS[one][0], sum(PARTS[one]))}
        if draw(st.booleans()) and not slots & set(range(first, first + count)):
            found.add(part)
    return frozenset(found)


FLEETS = st.lists(st.lists(_gpu(), min_size=1, max_size=3).map(tuple), min_size=1, max_size=3).map(
    lambda nodes: Parts({f"n{number}": gpus for number, gpus in enumerate(nodes)})
)
SIZE = st.sampled_from(sorted(SIZES.values()))
WEIGHTS = st.fixed_dictionaries({size: st.integers(1, 9) for size in SIZES.values()})


def _wanted(size: str, count: int = 1, name: str = "c") -> ResourceClaim:
    made = typed(claim(name, request("r", count, selectors=[_selector(size)])))
    assert isinstance(made, ResourceClaim)
    return made


def _selector(size: str) -> dict[str, object]:
    return {"cel": {"expression": f'device.attributes["d"].size == "{size}"'}}


def _choice(seen: Snapshot, size: str, policy: Policy) -> tuple[str, int, str]:
    found = allocate([_wanted(size)], seen, policy=policy)
    assert isinstance(found, Granted)
    ((result,),) = [plan.allocation.devices.results for plan in found.plans]
    gpu, _, part = result.device.partition("-")
    return found.node, int(gpu.removeprefix("g")), part


@pytest.mark.parametrize(
    ("policy", "twin"), [(BEST_FIT, naive.best_fit), (SPREAD, naive.spread)], ids=["best-fit", "spread"]
)
@examples(40)
@given(parts=FLEETS, size=SIZE)
def test_tightness_is_that_of_looking_at_every_device(
    policy: Policy, twin: Callable[[Parts, str], tuple[str, int, str]], parts: Parts, size: str
):
    assume(parts.candidates(size))
    assert _choice(snapshot(*parts.objects(), device_class()), size, policy) == twin(parts, size)


@examples(60)
@given(parts=FLEETS, size=SIZE, weights=WEIGHTS)
def test_least_loss_is_that_of_looking_at_every_device(parts: Parts, size: str, weights: dict[str, int]):
    assume(parts.candidates(size))
    # The heaviest weight is scaled to a power of two, so weights are compared exactly only if it is one.
    weights = {**weights, "whole": 16}
    demand = Demand(tuple(Shape(_wanted(one).spec, 0, 1, weight) for one, weight in weights.items()))
    found = _choice(snapshot(*parts.objects(), device_class()), size, LeastLoss(demand))
    assert found == naive.least_loss(parts, size, weights)


@examples(40)
@given(parts=FLEETS, size=SIZE)
def test_without_demand_a_part_counts_by_its_slots(parts: Parts, size: str):
    assume(parts.candidates(size))
    found = _choice(snapshot(*parts.objects(), device_class()), size, LeastLoss())
    assert found == naive.least_loss(parts, size, {"whole": 4, "half": 2, "quarter": 1})


@pytest.mark.parametrize("name", ["best-fit", "spread", "least-loss"])
@examples(25)
@given(sizes=st.lists(SIZE, max_size=8), parts=FLEETS, released=st.booleans())
def test_keys_that_follow_changes_are_those_of_a_new_start(
    name: str, sizes: list[str], parts: Parts, released: bool
):
    """Decisions one after the other, in one store, choose what each would choose in a fresh one."""
    policies: dict[str, Policy] = {"best-fit": BEST_FIT, "spread": SPREAD, "least-loss": LeastLoss()}
    policy = policies[name]
    world = store(*parts.objects(), device_class())
    for number, size in enumerate(sizes):
        wanted = _wanted(size, name=f"c{number}")
        found = allocate([wanted], world.snapshot(), policy=policy)
        fresh = allocate([wanted], world.snapshot().fork(), policy=policy)
        assert type(found) is type(fresh)
        if isinstance(found, Granted) and isinstance(fresh, Granted):
            assert found.plans == fresh.plans
            world.assume(found.plans[0])
            if released and number % 3 == 2:
                world.forget(found.plans[0])


def test_a_claim_for_one_device_leaves_the_nodes_that_can_serve_eight():
    """The demand asks for whole machines: a machine that lost one already loses nothing more."""
    slices = [
        resource_slice(f"s-{name}", [device(f"d{at}") for at in range(8)], pool=name, nodeName=name)
        for name in ("a", "b")
    ]
    busy = held("h", hold("d0", pool="b"))
    seen = snapshot(node("a"), node("b"), *slices, busy, device_class())
    eight = typed(claim("e", request("r", 8)))
    one = typed(claim("o", request("r", 1)))
    assert isinstance(eight, ResourceClaim)
    assert isinstance(one, ResourceClaim)
    demand = Demand((Shape(eight.spec, 0, 1),))
    found = allocate([one], seen, policy=LeastLoss(demand))
    assert isinstance(found, Granted)
    assert found.node == "b"


# -- The guard: claims that may go anywhere leave the nodes that others ask for by name.


MODELS = ("x", "y", "z")


def fleet(*nodes: tuple[str, int]) -> Snapshot:
    """Nodes with so many devices of one model each, named in order."""
    objects = [device_class()]
    for number, (model, count) in enumerate(nodes):
        name = f"n{number}"
        devices = [device(f"d{at}", {"model": model}) for at in range(count)]
        objects += [node(name), resource_slice(f"s-{name}", devices, pool=name, nodeName=name)]
    return snapshot(*objects)


def asking(models: str, count: int = 1) -> ResourceClaim:
    """A claim for devices of these models."""
    text = " || ".join(f'device.attributes["d"].model == "{one}"' for one in models)
    made = typed(claim("c", request("r", count, selectors=[{"cel": {"expression": text}}])))
    assert isinstance(made, ResourceClaim)
    return made


def shape(models: str, weight: int, count: int = 1) -> Shape:
    return Shape(asking(models, count).spec, 0, weight)


def node_of(seen: Snapshot, models: str, demand: Demand) -> str:
    found = allocate([asking(models)], seen, policy=policy_named("least-loss", demand))
    assert isinstance(found, Granted)
    return found.node


def test_who_may_go_anywhere_leaves_the_model_that_is_asked_for_more():
    seen = fleet(("x", 2), ("y", 2))
    often_x = Demand((shape("xy", 10), shape("x", 8), shape("y", 2)))
    often_y = Demand((shape("xy", 10), shape("x", 2), shape("y", 8)))
    assert node_of(seen, "xy", often_x) == "n1"
    assert node_of(seen, "xy", often_y) == "n0"
    assert node_of(seen, "x", often_x) == "n0"


def test_pressure_is_relative_to_the_devices_of_a_model():
    """Four times as many devices take twice the demand with less pressure."""
    seen = fleet(("x", 1), ("y", 4))
    demand = Demand((shape("x", 1), shape("y", 2)))
    assert node_of(seen, "xy", demand) == "n1"


def test_nodes_that_all_serve_the_same_have_no_pressure():
    parts = Parts({"n0": (frozenset(),), "n1": (frozenset(),)})
    one = typed(claim("c", request("r")))
    assert isinstance(one, ResourceClaim)
    seen = snapshot(*parts.objects(), device_class())
    assert pressure(Demand((Shape(one.spec, 0, 1),)), seen).tolist() == [0, 0]


def test_without_demand_there_is_no_guard():
    parts = Parts({"n0": (frozenset(),), "n1": (frozenset(),)})
    seen = snapshot(*parts.objects(), device_class())
    one = typed(claim("c", request("r")))
    assert isinstance(one, ResourceClaim)
    question, among = PolicyQuestion(claim_shape([one], seen).parsed, seen), np.ones(2, dtype=np.bool_)
    plain, found = (LeastLoss(guarded=guarded).nodes(question, among) for guarded in (False, True))
    assert plain is not None
    assert found is not None
    assert plain.tolist() == found.tolist()


SHAPES = st.lists(
    st.tuples(st.sampled_from(["x", "y", "xy", "yz", "xyz"]), st.integers(1, 9), st.integers(1, 3)),
    min_size=1,
    max_size=4,
)
NODES = st.lists(st.tuples(st.sampled_from(MODELS), st.integers(1, 3)), min_size=1, max_size=4)


@examples(40)
@given(nodes=NODES, shapes=SHAPES)
def test_pressure_is_that_of_adding_up_shape_by_shape(
    nodes: list[tuple[str, int]], shapes: list[tuple[str, int, int]]
):
    demand = Demand(tuple(shape(*one) for one in shapes))
    devices, asked = sum(count for _, count in nodes), sum(weight * count for _, weight, count in shapes)
    expected = [Fraction(0)] * len(nodes)
    for models, weight, count in shapes:
        own = sum(devices_of for model, devices_of in nodes if model in models)
        for at, (model, _) in enumerate(nodes):
            if model in models and own < devices:
                expected[at] += Fraction(1000 * weight * count * devices, asked * own)
    found = pressure(demand, fleet(*nodes)).tolist()
    assert all(-len(shapes) <= one - float(other) <= 0 for one, other in zip(found, expected, strict=True))


@examples(30)
@given(nodes=NODES, shapes=SHAPES, asked=st.sampled_from(["x", "xy", "xyz"]))
def test_nodes_are_ordered_by_their_loss_with_the_price_of_its_pressure(
    nodes: list[tuple[str, int]], shapes: list[tuple[str, int, int]], asked: str
):
    seen, demand = fleet(*nodes), Demand(tuple(shape(*one) for one in shapes))
    among = np.array([model in asked for model, _ in nodes])
    question = PolicyQuestion(claim_shape([asking(asked)], seen).parsed, seen)
    plain, found = (
        one.nodes(question, among) for one in (LeastLoss(demand), LeastLoss(demand, guarded=True))
    )
    assert plain is not None
    assert found is not None
    press = pressure(demand, seen).tolist()
    expected = {
        at: (
            plain[at] // FULLNESS * ((1000 + PRICE * press[at]) * 1024 // 1000) // 1024,
            plain[at] % FULLNESS,
        )
        for at in np.flatnonzero(among).tolist()
    }
    told = sorted(expected, key=lambda at: (found[at], at))
    assert told == sorted(expected, key=lambda at: (expected[at], at))
