"""What is a mere report of a kubelet, and what changes a decision."""

from typing import Any

import pytest

from reconciler.api.objects.core import GATE, is_report
from tests.tools.small_fleet import pod
from tests.tools.unit_pictures import as_pod

LIVE: dict[str, Any] = {"phase": "Running"}


def bound(status: dict[str, Any], *, gates: tuple[str, ...] = (), **spec: Any) -> Any:
    raw = pod("p", "a", gates=gates, **{"nodeName": "n", **spec})
    return as_pod({**raw, "metadata": {**raw["metadata"], "uid": "u"}, "status": status})


def test_a_new_status_of_a_bound_pod_is_a_report():
    assert is_report(bound({"phase": "Pending"}), bound(LIVE))


@pytest.mark.parametrize(
    ("before", "both"),
    [
        pytest.param(LIVE, {"nodeName": ""}, id="on no node"),
        pytest.param(LIVE, {"gates": (GATE,)}, id="gated"),
        pytest.param({"phase": "Failed"}, {}, id="it had ended"),
    ],
)
def test_what_holds_of_both_versions_can_make_it_none(before: dict[str, Any], both: dict[str, Any]):
    """Their specs are equal."""
    assert not is_report(bound(before, **both), bound(LIVE, **both))
