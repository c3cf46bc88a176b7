"""A demand as text: what can be read is used, the rest is refused by name."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.allocation.policies.demand import (
    MAX_LENGTH,
    MAX_SHAPES,
    NO_DEMAND,
    SPEC_LENGTH,
    Demand,
    LearntDemand,
    Shape,
    demand_differs,
    read_demand,
)
from reconciler.api.objects.claims import ResourceClaimSpec
from reconciler.errors import Malformed
from tests.tools.examples import examples
from tests.tools.small_fleet import Object, claim_spec

SHAPE = Shape(ResourceClaimSpec.model_validate(claim_spec(2)), 500, 7, 3)


def read(*shapes: object) -> tuple[Demand, list[str]]:
    found = read_demand(json.dumps({"shapes": shapes}), "f.json")
    return found.demand, [str(one) for one in found.refused]


def test_a_demand_is_read_as_it_is_written():
    demand = Demand((SHAPE, Shape(None, 100, 1)))
    assert read_demand(demand.to_json(), "f").demand == demand
    assert "deviceClassName" in demand.to_json()


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (7, "shapes[1]: must be an object"),
        ({"weight": 0}, "shapes[1].weight: must be a whole number from 1 to"),
        ({"weight": True}, "shapes[1].weight"),
        ({"cpuMilli": "4"}, "shapes[1].cpuMilli"),
        ({"value": 10**12}, "shapes[1].value"),
        ({"spec": {"devices": {"requests": 3}}}, "shapes[1].spec.devices.requests: must be a list"),
    ],
)
def test_a_shape_that_cannot_be_read_is_refused_alone(wrong: object, why: str):
    good: Object = {"weight": 2, "spec": claim_spec()}
    demand, refused = read(good, wrong, good)
    assert len(demand.shapes) == 2
    (only,) = refused
    assert only.startswith(f"f.json: {why}")


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"shapes": 1}', "[" * 100_000, "x" * (MAX_LENGTH + 1)]
)
def test_other_texts_are_refused(text: str):
    with pytest.raises(Malformed, match=r"f\.json: "):
        read_demand(text, "f.json")


def test_further_shapes_are_left_out():
    demand, refused = read(*[{"cpuMilli": cores} for cores in range(MAX_SHAPES + 2)])
    assert len(demand.shapes) == MAX_SHAPES
    assert refused == [f"f.json: shapes[{MAX_SHAPES}:]: only {MAX_SHAPES} shapes are read"]


# -- The learnt demand: counts that decay, of bounded size.


WEEK = 7 * 24 * 3600.0


def spec(count: int = 1, **more: object) -> ResourceClaimSpec:
    raw = claim_spec(count)
    raw["devices"]["requests"][0]["exactly"] |= more
    return ResourceClaimSpec.model_validate(raw)


def weights(learnt: LearntDemand, at: float) -> dict[int, int]:
    """Devices that a shape asks for -> its weight."""
    found = {}
    for shape in learnt.demand(at).shapes:
        assert shape.spec is not None
        (request,) = shape.spec.devices.requests
        assert request.exactly is not None
        found[request.exactly.count] = shape.weight
    return found


def test_claims_of_one_spec_and_cpu_are_one_shape():
    learnt = LearntDemand(WEEK)
    for cores in (100, 100, 200):
        learnt.count(spec(), cores, 0.0)
    assert [(one.cores, one.weight) for one in learnt.demand(0.0).shapes] == [(100, 2000), (200, 1000)]


def test_a_claim_counts_half_after_the_half_life():
    learnt = LearntDemand(WEEK)
    learnt.count(spec(1), 0, 0.0)
    learnt.count(spec(2), 0, WEEK)
    assert weights(learnt, WEEK) == {1: 500, 2: 1000}
    assert weights(learnt, 3 * WEEK) == {1: 125, 2: 250}


seen = st.lists(st.tuples(st.integers(1, 4), st.floats(0, 200)), min_size=1, max_size=20)


@examples(30)
@given(seen)
def test_counts_are_sums_of_powers_of_two(seen: list[tuple[int, float]]):
    """The slow twin adds up every claim. 200 half-lives pass the point where counts are rebased."""
    learnt = LearntDemand(1.0)
    for count, at in sorted(seen, key=lambda one: one[1]):
        learnt.count(spec(count), 0, at)
    end = max(at for _, at in seen)
    expected: dict[int, float] = {}
    for count, at in seen:
        expected[count] = expected.get(count, 0.0) + 2.0 ** (at - end)
    total = sum(expected.values())
    found = weights(learnt, end)
    for count, value in expected.items():
        if value > total / 900:
            assert abs(found[count] - 1000 * value) <= 1


@examples(20)
@given(seen, st.floats(0, 50))
def test_what_was_kept_continues(seen: list[tuple[int, float]], later: float):
    one, other = LearntDemand(1.0), LearntDemand(1.0)
    for count, at in seen:
        one.count(spec(count), 0, at)
    end = max(at for _, at in seen)
    kept = read_demand(one.demand(end).to_json(), "kept").demand
    other.load(kept.shapes, end)
    for learnt in (one, other):
        learnt.count(spec(5), 0, end + later)
    first, second = weights(one, end + later), weights(other, end + later)
    for count in first.keys() | second.keys():
        assert abs(first.get(count, 0) - second.get(count, 0)) <= 2


def test_the_rarest_shapes_are_dropped():
    learnt = LearntDemand(WEEK)
    for cores in range(MAX_SHAPES + 20):
        for _ in range(2 if cores < 10 else 1):
            learnt.count(spec(), cores, float(cores))
    assert len(learnt) == MAX_SHAPES
    kept = {shape.cores for shape in learnt.demand(300.0).shapes}
    assert set(range(10)) <= kept
    assert MAX_SHAPES + 19 in kept


def test_shapes_below_a_thousandth_are_left_out():
    learnt = LearntDemand(WEEK)
    learnt.count(spec(1), 0, 0.0)
    learnt.count(spec(2), 0, 0.0, weight=2000.0)
    assert weights(learnt, 0.0).keys() == {2}


def test_configuration_for_drivers_makes_no_other_shape():
    learnt = LearntDemand(WEEK)
    for number in range(3):
        raw = claim_spec()
        raw["devices"]["config"] = [{"opaque": {"driver": "d", "parameters": {"number": number}}}]
        learnt.count(ResourceClaimSpec.model_validate(raw), 0, 0.0)
    assert [shape.weight for shape in learnt.demand(0.0).shapes] == [3000]


def test_claims_with_admin_access_and_huge_specs_are_not_counted():
    learnt = LearntDemand(WEEK)
    learnt.count(spec(adminAccess=True), 0, 0.0)
    learnt.count(spec(selectors=[{"cel": {"expression": "x" * SPEC_LENGTH}}]), 0, 0.0)
    assert learnt.demand(0.0) == NO_DEMAND


def test_a_demand_differs_by_its_shapes_and_by_their_shares():
    one, two = Shape(spec(1), 0, 100), Shape(spec(2), 0, 100)
    known = Demand((one, two))
    assert not demand_differs(known, Demand((two, one)))
    assert not demand_differs(known, Demand((Shape(spec(1), 0, 1000), Shape(spec(2), 0, 1001))))
    assert demand_differs(known, Demand((one,)))
    assert demand_differs(known, Demand((one, Shape(spec(2), 0, 150))))
    assert demand_differs(NO_DEMAND, known)
