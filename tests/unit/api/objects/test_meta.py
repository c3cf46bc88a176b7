"""Times of objects are read by one rule."""

from datetime import UTC, datetime

import pytest

from reconciler.api.objects.meta import time_of
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
