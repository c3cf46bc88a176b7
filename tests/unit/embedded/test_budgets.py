"""PodDisruptionBudgets on the embedded server."""

from typing import Any

import pytest

from reconciler.embedded import ApiServer
from tests.tools.driving import MERGE, call, causes, ok
from tests.tools.small_fleet import pod

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


PODS = "/api/v1/namespaces/default/pods"


def evict(api: ApiServer, **fields: Any) -> tuple[int, Any]:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}, **fields}
    return call(api, "POST", f"{PODS}/p/eviction", body)


def with_pod(phase: str = "Running") -> ApiServer:
    """A server with a pod that the budget covers."""
    api, made = ApiServer(), pod("p", gates=())
    made["metadata"]["labels"] = {"app": "a"}
    ok(api, "POST", PODS, made)
    ok(api, "PATCH", f"{PODS}/p/status", {"status": {"phase": phase}}, media=MERGE)
    return api


def test_an_eviction_counts_for_the_budget():
    api = with_pod()
    ok(api, "POST", BUDGETS, budget())
    status, body = evict(api)
    assert (status, body["reason"]) == (429, "TooManyRequests")
    assert body["details"]["causes"][0]["reason"] == "DisruptionBudget"
    ok(api, "PATCH", f"{BUDGETS}/b/status", {"status": {"disruptionsAllowed": 1}}, media=MERGE)
    assert evict(api, deleteOptions={"dryRun": ["All"]})[0] == 201
    assert evict(api)[0] == 201
    assert call(api, "GET", f"{PODS}/p")[0] == 404
    found = ok(api, "GET", f"{BUDGETS}/b")["status"]
    assert (found["disruptionsAllowed"], list(found["disruptedPods"])) == (0, ["p"])


def test_a_pod_that_does_not_run_counts_for_no_budget():
    api = with_pod("Pending")
    ok(api, "POST", BUDGETS, budget())
    assert evict(api)[0] == 201


def test_a_pod_of_several_budgets_cannot_be_evicted():
    api = with_pod()
    for name in ("b", "c"):
        ok(api, "POST", BUDGETS, {**budget(), "metadata": {"name": name}})
    assert evict(api)[0] == 500


def test_without_a_budget_a_pod_is_evicted_and_one_that_is_gone_is_not_found():
    api = with_pod()
    assert evict(api, deleteOptions={"preconditions": {"uid": "x"}})[0] == 409
    assert evict(api)[0] == 201
    assert evict(api)[0] == 404
    assert call(api, "GET", f"{PODS}/p/eviction")[0] == 405


def test_kubectl_drain_sends_protobuf():
    api, media = with_pod(), "application/vnd.kubernetes.protobuf"
    body = b"k8s\x00\n\x15\n\tpolicy/v1\x12\x08Eviction\x12\x0b\n\x03\n\x01p\x12\x04\x12\x02\n\x00"
    assert call(api, "POST", f"{PODS}/p/eviction", body, media=media)[0] == 201
