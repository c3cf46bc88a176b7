"""Models keep what they compute, and are built as late as possible."""

import subprocess
import sys
import weakref
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property

import pytest

from reconciler.api.objects.claims import ResourceClaimSpec
from reconciler.api.objects.core import Node, Pod
from reconciler.api.objects.meta import ApiObject, ObjectMeta, time_of
from reconciler.api.objects.slices import ResourceSlice
from reconciler.api.objects.value import value
from reconciler.plugins.kueue.objects import Workload
from tests.tools.patience import PATIENCE


def test_a_key_is_computed_once_and_does_not_count_as_a_field():
    one, other = (Node(metadata=ObjectMeta(name="n")) for _ in range(2))
    assert one.key is one.key
    assert one == other
    assert one.to_json() == other.to_json()


@pytest.mark.parametrize("model", [Pod, ResourceSlice])
def test_copies_have_none_of_the_values_that_are_computed(model: type[ApiObject]):
    found = {
        name
        for one in model.__mro__
        for name, value in vars(one).items()
        if isinstance(value, cached_property)
    }
    spec = {"driver": "d", "pool": {"name": "p", "resourceSliceCount": 1}}
    made = model.model_validate(
        {"metadata": {"name": "a"}, **({"spec": spec} if model is ResourceSlice else {})}
    )
    assert all(getattr(made, name) is not None for name in found)
    assert found <= made.__dict__.keys()
    assert not made.model_copy().__dict__.keys() & found


def test_equal_specs_have_equal_keys():
    one, other = (ResourceClaimSpec.model_validate({"devices": {}}) for _ in range(2))
    assert one.key == other.key


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


@value()
class Point:
    x: int
    y: int = 0


@value(eq=False, weakref_slot=True)
class Picture:
    x: int


def test_equal_fields_are_equal_and_hash_alike():
    assert Point(1) == Point(1, 0) != Point(1, 1)
    assert len({Point(1), Point(1, 0), replace(Point(2), x=1)}) == 1


def test_without_comparing_each_is_equal_to_itself_alone():
    one = Picture(1)
    assert one == one != Picture(1)
    assert weakref.ref(one)() is one


def test_there_is_room_for_its_fields_only():
    with pytest.raises(AttributeError):
        Point(1).z = 2  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2026-01-01T12:00:00Z", datetime(2026, 1, 1, 12, tzinfo=UTC)),
        ("2026-01-01T12:00:00.5+02:00", datetime(2026, 1, 1, 10, 0, 0, 500_000, tzinfo=UTC)),
        ("2026-01-01T12:00:00", None),
        ("noon", None),
        ("", None),
    ],
)
def test_a_time_that_cannot_be_read_or_has_no_zone_is_none(text: str, time: datetime | None):
    assert time_of(text) == time
    condition = {"type": "QuotaReserved", "status": "True", "lastTransitionTime": text}
    metadata = {"name": "w", "creationTimestamp": text}
    found = Workload.model_validate({"metadata": metadata, "status": {"conditions": [condition]}})
    assert found.metadata.created == found.quota_since == time
