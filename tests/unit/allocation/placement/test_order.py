"""Who is allocated first."""

import pytest

from reconciler.allocation.placement.order import queue_key
from tests.tools.small_fleet import Object, claim, pod
from tests.tools.unit_pictures import typed

EARLY, LATE = "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"


def made(raw: Object, created: str = "", namespace: str = "default") -> Object:
    metadata = {**raw["metadata"], "namespace": namespace}
    return {**raw, "metadata": {**metadata, **({"creationTimestamp": created} if created else {})}}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(pod("z", priority=2), pod("a", priority=1), id="priority"),
        pytest.param(pod("z", priority=1), claim("a"), id="a claim alone has priority 0"),
        pytest.param(claim("z"), pod("a", priority=-1), id="a negative priority comes after claims alone"),
        pytest.param(made(claim("z"), EARLY), made(claim("a"), LATE), id="older"),
        pytest.param(made(claim("z"), LATE), claim("a"), id="without a timestamp: the youngest"),
        pytest.param(made(pod("z"), LATE), pod("a"), id="so are pods"),
        pytest.param(made(claim("z"), "", "a"), made(claim("a"), "", "b"), id="namespace"),
        pytest.param(claim("a"), claim("b"), id="name"),
        pytest.param(pod("a"), claim("a"), id="a pod before a claim of the same name"),
    ],
)
def test_the_first_goes_first(first: Object, second: Object):
    assert queue_key(typed(first)) < queue_key(typed(second))
