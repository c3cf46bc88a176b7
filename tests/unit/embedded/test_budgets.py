"""PodDisruptionBudgets on the embedded server."""

from typing import Any

import pytest

from reconciler.embedded import ApiServer
from tests.tools.driving import MERGE, causes, ok

BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


def budget(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b"},
        "spec": {"selector": {"matchLabels": {"app": "a"}}, **spec},
    }


def test_the_status_is_written_apart_from_the_spec():
    api = ApiServer()
    ok(api, "POST", BUDGETS, budget(maxUnavailable="50%"))
    ok(api, "PATCH", f"{BUDGETS}/b/status", {"status": {"disruptionsAllowed": 2}}, media=MERGE)
    found = ok(api, "PATCH", f"{BUDGETS}/b", {"status": {"disruptionsAllowed": 9}}, media=MERGE)
    assert found["status"] == {"disruptionsAllowed": 2}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"minAvailable": 1, "maxUnavailable": 1}, "spec"),
        ({"minAvailable": -1}, "spec.minAvailable"),
        ({"maxUnavailable": "half"}, "spec.maxUnavailable"),
        ({"maxUnavailable": "101%"}, "spec.maxUnavailable"),
        ({"unhealthyPodEvictionPolicy": "Never"}, "spec.unhealthyPodEvictionPolicy"),
    ],
)
def test_limits_that_mean_nothing_are_refused(spec: dict[str, Any], field: str):
    assert [path for path, _ in causes(ApiServer(), "POST", BUDGETS, budget(**spec))] == [field]
