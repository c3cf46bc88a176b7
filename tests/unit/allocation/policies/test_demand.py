"""A demand as text: what can be read is used, the rest is refused by name."""

import json

import pytest

from reconciler.allocation.policies.demand import MAX_LENGTH, MAX_SHAPES, Demand, Shape, read_demand
from reconciler.api.objects.claims import ResourceClaimSpec
from reconciler.errors import Malformed
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
        ({"spec": {"devices": {"requests": 3}}}, "shapes[1].spec.devices.requests"),
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
