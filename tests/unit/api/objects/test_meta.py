"""What all objects have: times that are read by one rule, and copies without values of the original."""

from datetime import UTC, datetime

import pytest

from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ApiObject, time_of
from reconciler.api.objects.model import kept
from reconciler.api.objects.slices import ResourceSlice
from reconciler.plugins.kueue.objects import Workload


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


@pytest.mark.parametrize("model", [Pod, ResourceSlice, Workload])
def test_copies_have_none_of_the_values_that_are_kept(model: type[ApiObject]):
    found = {name for one in model.__mro__ for name, value in vars(one).items() if isinstance(value, kept)}
    assert set(model.KEPT) == found
    spec = {"driver": "d", "pool": {"name": "p", "resourceSliceCount": 1}}
    made = model.model_validate(
        {"metadata": {"name": "a"}, **({"spec": spec} if model is ResourceSlice else {})}
    )
    assert all(getattr(made, name) is not None for name in found)
    assert not made.model_copy().__dict__.keys() & found
