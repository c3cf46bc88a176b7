"""Objects that are made of valid fields without validation are the objects that pydantic makes."""

import pickle
import subprocess
import sys
from copy import copy, deepcopy
from typing import Any

import pytest

from reconciler.api.objects.claims import AllocatedDevice, Allocation, DeviceAllocation
from reconciler.api.objects.core import Node, NodeAffinity, NodeStatus, PodSpec
from reconciler.api.objects.meta import ObjectMeta
from reconciler.api.objects.model import Maker, Model, blank
from reconciler.api.objects.selectors import NodeSelectorRequirement
from tests.tools.patience import PATIENCE

DEVICE: dict[str, Any] = {"request": "r", "driver": "d", "pool": "p", "device": "gpu-0"}


@pytest.mark.parametrize(
    ("model", "fields"),
    [
        (AllocatedDevice, DEVICE),
        (AllocatedDevice, {**DEVICE, "admin_access": True, "share_id": "s"}),
        (DeviceAllocation, {"results": (AllocatedDevice(**DEVICE),)}),
        (Allocation, {}),
        (NodeSelectorRequirement, {"key": "metadata.name", "operator": "In", "values": ("n",)}),
    ],
)
def test_a_made_object_is_the_validated_one(model: type[Model], fields: dict[str, Any]):
    made, validated = Maker(model)(fields), model(**fields)
    assert made == validated
    assert repr(made) == repr(validated)
    assert made.model_fields_set == validated.model_fields_set == set(fields)
    assert made.model_dump_json(by_alias=True) == validated.model_dump_json(by_alias=True)
    assert made.to_json() == validated.to_json()
    for copied in (copy(made), deepcopy(made), pickle.loads(pickle.dumps(made)), made.model_copy()):
        assert copied == validated
        assert copied.model_fields_set == set(fields)


def test_changing_a_copy_changes_neither_the_object_nor_the_next_one():
    make = Maker(AllocatedDevice)
    made = make(DEVICE)
    changed = made.model_copy(update={"share_id": "s"})
    assert changed.model_fields_set == {*DEVICE, "share_id"}
    assert made == make(DEVICE) == AllocatedDevice(**DEVICE)
    assert made.model_fields_set == set(DEVICE)


def test_fields_that_all_objects_have_count_as_set():
    make = Maker(AllocatedDevice, {"request": "r", "driver": "d"})
    assert make({"pool": "p", "device": "gpu-0"}) == AllocatedDevice(**DEVICE)
    assert make({"pool": "p", "device": "gpu-0"}).model_fields_set == set(DEVICE)


def test_a_key_is_computed_once_and_does_not_count_as_a_field():
    one, other = (Node(metadata=ObjectMeta(name="n")) for _ in range(2))
    assert one.key is one.key
    assert one == other
    assert one.to_json() == other.to_json()


def test_objects_that_differ_in_one_field_are_those_made_one_by_one():
    make, common = Maker(AllocatedDevice, {"request": "r"}), {"driver": "d", "pool": "p"}
    several = make.each(common, "device", ["a", "b"])
    assert several == [make({**common, "device": name}) for name in ("a", "b")]
    assert several[0].model_fields_set == {"request", "driver", "pool", "device"}
    assert make.each(common, "device", []) == []


@pytest.mark.parametrize("model", [NodeStatus, NodeAffinity, PodSpec])
def test_a_blank_object_is_the_one_without_any_field(model: type[Model]):
    assert blank(model) == model()
    assert blank(model).to_json() == {}


def test_nothing_is_built_before_it_is_used():
    """Each model takes up to some milliseconds, and a command reads objects of a few of them."""
    code = """
import reconciler.cli.allocate, reconciler.cli.explain_cluster, reconciler.plugins.kueue.checker
from reconciler.api.objects.model import Model
found = [Model]
for model in found:
    found += model.__subclasses__()
assert len(found) > 100
print([model.__name__ for model in found if model.__pydantic_complete__])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    assert done.stdout.strip() == "[]"
