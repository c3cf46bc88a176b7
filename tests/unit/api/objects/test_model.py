"""Models keep what they compute, and are built as late as possible."""

import subprocess
import sys
from functools import cached_property

import pytest

from reconciler.api.objects.claims import ResourceClaimSpec
from reconciler.api.objects.core import Node, Pod
from reconciler.api.objects.meta import ApiObject, ObjectMeta
from reconciler.api.objects.slices import ResourceSlice
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
